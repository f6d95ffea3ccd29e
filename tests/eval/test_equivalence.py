"""Two-sided equivalence of any number within a margin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval.comparison import compare_runs, compare_samples
from eval.equivalence import METRICS, equivalence
from eval.errors import EvalError
from eval.sample import Sample
from eval.summary import NUMBERS, SHARES, summarize
from eval.verdict import Equality
from mempo.verifiers import BOXED
from tests.eval.test_comparison import call, samples, write
from tests.eval.test_summary import sample

EQUIVALENT, DIFFERENT, UNDECIDED = Equality.EQUIVALENT, Equality.DIFFERENT, Equality.UNDECIDED


def run(values: Any, name: str = "em") -> dict[str, Sample]:
    return {f"q{n}": {"id": f"q{n}", name: float(value), "failure": None} for n, value in enumerate(values)}


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.02, 0.02, EQUIVALENT),
        (0.01, 0.02, EQUIVALENT),  # surely better, and by less than matters
        (-0.03, 0.02, UNDECIDED),
        (-0.02, 0.03, UNDECIDED),
        (-0.05, 0.05, UNDECIDED),
        (0.04, 0.05, DIFFERENT),
        (-0.05, -0.04, DIFFERENT),
        (0.03, 0.05, UNDECIDED),
    ],
)
def test_the_interval_stands_against_both_margins(low: float, high: float, expected: Equality) -> None:
    assert Equality.of(low, high, margin=0.03, enough=True, changed=True) is expected
    assert Equality.of(low, high, margin=0.03, enough=False, changed=False) is UNDECIDED


def test_the_order_of_the_runs_turns_everything_around_but_the_verdict() -> None:
    random = np.random.default_rng(0)
    a, b = run(random.random(300) < 0.5), run(random.random(300) < 0.5)
    forth, back = (equivalence(*pair, metric="em", margin=0.2) for pair in ((a, b), (b, a)))
    assert (back.low, back.high) == pytest.approx((-forth.high, -forth.low))
    assert back.value == -forth.value
    assert back.verdict is forth.verdict is EQUIVALENT
    assert equivalence(a, b, metric="em", margin=forth.smallest_margin + 1e-9).verdict is EQUIVALENT
    assert equivalence(a, b, metric="em", margin=forth.smallest_margin).verdict is UNDECIDED


def test_the_interval_is_that_of_two_one_sided_tests_at_five_percent() -> None:
    changes = np.random.default_rng(1).normal(0.5, 2.0, 400)
    found = equivalence(run([0.0] * 400, "turns"), run(changes, "turns"), metric="turns", margin=1.0)
    half = 1.645 * changes.std() / 20
    assert (found.low, found.high) == pytest.approx((changes.mean() - half, changes.mean() + half), abs=0.02)
    assert found.verdict is EQUIVALENT


def test_few_questions_show_neither() -> None:
    same = run([1.0] * 99)
    assert equivalence(same, same, metric="em", margin=0.03).verdict is UNDECIDED  # 0.97 ** 99 is still 0.049
    same = run([1.0] * 100)
    assert equivalence(same, same, metric="em", margin=0.03).verdict is EQUIVALENT
    for count, expected in ((29, UNDECIDED), (30, EQUIVALENT)):
        same = run([3.0] * count, "turns")
        assert equivalence(same, same, metric="turns", margin=0.5).verdict is expected
    for changed, expected in ((5, UNDECIDED), (6, DIFFERENT)):
        a, b = run([0.0] * changed), run([1.0] * changed)
        assert equivalence(a, b, metric="em", margin=0.1).verdict is expected


def test_questions_without_the_number_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    a = {f"q{n}": {"id": f"q{n}", "support": {"search": 1.0} if n % 2 else None} for n in range(80)}
    found = equivalence(a, a, metric="support_by_search", margin=0.2)
    assert (found.questions, found.a, found.verdict) == (40, 1.0, EQUIVALENT)
    with pytest.raises(EvalError, match="no question has this number in both runs"):
        equivalence(a, a, metric="support_by_memory", margin=0.2)
    with pytest.raises(EvalError, match="no question has this number in both runs"):
        equivalence(a, a, metric="boxed_em", margin=0.2)


@pytest.mark.parametrize("metric", METRICS)
def test_every_number_of_a_summary_can_be_compared(metric: str) -> None:
    whole = {str(n): {**sample(n), "verified": dict.fromkeys(BOXED, 1.0)} for n in range(3)}
    summary = summarize(list(whole.values()))
    if summary[metric] is None:
        with pytest.raises(EvalError, match="no question has this number"):
            equivalence(whole, whole, metric=metric, margin=0.5)
    else:
        found = equivalence(whole, whole, metric=metric, margin=0.5)
        assert found.a == found.b == pytest.approx(summary[metric])
    assert set(SHARES) <= {*NUMBERS, *BOXED}


def test_tokens_that_were_counted_by_us_are_called_estimated() -> None:
    tokens = {"prompt": 5, "response": 2, "peak": 7}
    chat = {f"q{n}": {"id": f"q{n}", "estimated_tokens": tokens} for n in range(40)}
    assert equivalence(chat, chat, metric="total_tokens", margin=1).metric == "estimated_total_tokens"


@pytest.mark.parametrize(
    ("metric", "margin", "told"),
    [
        ("em", 0.0, "--equivalence is 0; it is the largest difference of em"),
        ("em", 1.0, "below 1 for a share"),
        ("f1", float("nan"), "--equivalence is nan"),
        ("turns", float("inf"), "--equivalence is inf"),
        ("turns", -1.0, "--equivalence is -1"),
        ("accuracy", 0.1, "--metric is 'accuracy'; write one of em, f1, sub_em"),
    ],
)
def test_what_means_nothing_is_refused(tmp_path: Path, metric: str, margin: float, told: str) -> None:
    a = write(tmp_path / "a", samples(range(10)))
    with pytest.raises(EvalError, match=told):
        compare_runs(a, a, within=margin, metric=metric)


def test_the_command_says_it_in_words_and_in_json(tmp_path: Path) -> None:
    a = write(tmp_path / "a", samples(range(100)))
    b = write(tmp_path / "b", samples(range(1, 101)), model={"sha256": "b"})
    code, text = call(a, b, "--equivalence", "0.03", "--metric", "f1")
    assert code == 0
    assert (
        "A and B are equivalent within the margin (f1, margin 0.03): 0.625 and 0.625 over 200 questions"
        in text
    )
    told = json.loads(call(a, b, "--equivalence", "0.03", "--json")[1])
    assert told["equivalence"]["metric"] == "em"
    assert told["equivalence"]["verdict"] == "equivalent within the margin"
    assert told["equivalence"]["ci90"][1] <= told["equivalence"]["smallest_margin"] < 0.03
    assert told["verdict"] == "undecided"  # the one-sided question without a margin
    assert json.loads(call(a, b, "--json")[1])["equivalence"] is None
    code, text = call(a, b, "--metric", "f1")
    assert (code, "give that margin too" in text) == (1, True)
    assert "two one-sided tests at 5 % each" in " ".join(call("--help")[1].split())
    assert compare_samples(samples([1]), samples([1]), margin=0.0).equivalence is None
