"""Two runs compared: from folders, by command, with everything refused that is not a comparison of the subject."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from eval.compare_command import HELP, compare
from eval.comparison import compare_runs, compare_samples
from eval.endpoint import EndpointSettings
from eval.errors import EvalError
from eval.run import run_settings
from eval.sample import Sample
from eval.verdict import Verdict
from mempo.task import Reference

app = typer.Typer(rich_markup_mode="markdown")
app.command(help=HELP)(compare)

SETTINGS: dict[str, Any] = {
    "version": 2,
    "model": {"sha256": "a"},
    "data": {"sha256": "d", "questions": 200, "rows_sha256": "r"},
    "agent": {"name": "self_memory", "context": "window:1"},
    "prompt_sha256": "p",
}


def samples(right: Iterable[int], count: int = 200) -> dict[str, Sample]:
    right = set(right)
    return {
        f"q{n}": {
            "id": f"q{n}",
            "em": float(n in right),
            "em_each": [n in right],
            "f1": 1.0 if n in right else 0.25,
            "failure": None,
        }
        for n in range(count)
    }


def write(folder: Path, run: dict[str, Sample], **changes: Any) -> Path:
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({**SETTINGS, **changes}))
    (folder / "samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in run.values()))
    return folder


def call(*words: str | Path) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"}).invoke(app, [str(word) for word in words])
    return result.exit_code, re.sub(r"\x1b\[[0-9;]*m", "", result.output)


def test_a_clear_gain_is_better_by_pairs_intervals_and_p() -> None:
    found = compare_samples(samples(range(100)), samples(range(10, 140)), margin=0.0)
    pairs = found.pairs
    assert (pairs.both, pairs.only_before, pairs.only_after, pairs.neither) == (90, 10, 40, 60)
    assert (found.em.a, found.em.b, found.em.value) == pytest.approx((0.5, 0.65, 0.15))
    assert found.f1.value == pytest.approx(0.15 * 0.75)
    error = (50 / 200 - 0.15**2) ** 0.5 / 200**0.5  # of a mean of +1, 0 and -1
    assert (found.em.low, found.em.high) == pytest.approx(
        (0.15 - 1.96 * error, 0.15 + 1.96 * error), abs=0.01
    )
    assert pairs.p < found.p_two_sided < 0.001
    assert found.verdict is Verdict.BETTER


def test_the_order_of_the_runs_turns_everything_around() -> None:
    a, b = samples(range(100)), samples(range(10, 140))
    forth, back = compare_samples(a, b, margin=0.0), compare_samples(b, a, margin=0.0)
    assert back.em.value == -forth.em.value
    assert (back.em.low, back.em.high) == pytest.approx((-forth.em.high, -forth.em.low))
    assert back.p_two_sided == forth.p_two_sided
    assert back.verdict is Verdict.WORSE


def test_the_same_answers_are_undecided_without_a_margin_and_no_worse_with_one() -> None:
    run = samples(range(100))
    assert compare_samples(run, run, margin=0.0).verdict is Verdict.UNDECIDED
    found = compare_samples(run, run, margin=0.03)
    assert found.verdict is Verdict.NO_WORSE
    assert (found.em.low, found.em.high, found.p_two_sided) == (0.0, 0.0, 1.0)


def test_several_objectives_count_in_em_before_all_of_them_are_right() -> None:
    a, b = samples([]), samples([])
    for number in range(80):
        b[f"q{number}"] |= {"em": 0.5, "em_each": [True, False]}
    found = compare_samples(a, b, margin=0.0)
    assert found.pairs.neither == 200
    assert found.em.value == pytest.approx(0.2)
    assert found.verdict is Verdict.BETTER


def test_runs_that_differ_in_more_than_the_subject_are_refused(tmp_path: Path) -> None:
    run = samples(range(100))
    a = write(tmp_path / "a", run)
    for number, (name, changes) in enumerate(
        {
            "data.sha256": {"data": SETTINGS["data"] | {"sha256": "other"}},
            "agent.context": {"agent": SETTINGS["agent"] | {"context": "history"}},
            "prompt_sha256": {"prompt_sha256": "other"},
            "version": {"version": 1},
        }.items()
    ):
        b = write(tmp_path / f"b{number}", run, **changes)
        with pytest.raises(EvalError, match=rf"differ in {name}: .*--subject"):
            compare_runs(a, b)
        found = compare_runs(a, b, subjects=[name])
        assert [each.partition(":")[0] for each in found.subject] == [name]
    other_model = write(tmp_path / "m", run, model={"sha256": "b"})
    assert compare_runs(a, other_model).pairs.n == 200
    with pytest.raises(EvalError, match=r"differ in model\.sha256"):
        compare_runs(a, other_model, subjects=["agent.context"])


@pytest.mark.parametrize(
    ("agent", "answers", "version"),
    [
        ({"name": "chunk_memory", "verifier": "boxed_em"}, [["x"], ["y"]], 3),
        ({"name": "full_context", "verifier": "boxed_exact"}, [["x"], ["y"]], 3),
        ({"name": "self_memory", "verifier": "lenient"}, [["x"], ["y"]], 3),
        ({"name": "my_agent:build"}, [["x"], ["y"]], 3),  # whether it answers in a box is not known yet
        ({"name": "chunk_memory", "verifier": "lenient"}, [["x"]], 2),
        ({"name": "self_memory"}, [["x"], ["y"]], 2),
        ({"name": "rag"}, [["x"], ["y"]], 2),
        ({"name": "rag"}, [["x", "(A)"]], 4),  # could not be right before
        ({"name": "chunk_memory"}, [["x"], ["the"]], 4),
        ({"name": "rag"}, [["a dog", "?!"]], 2),
    ],
)
def test_runs_whose_numbers_have_another_meaning_have_another_version(
    agent: dict[str, Any], answers: list[list[str]], version: int
) -> None:
    found = run_settings(
        model={},
        data={},
        agent=agent,
        endpoint=EndpointSettings("http://127.0.0.1", "fake"),
        search=None,
        references=[Reference([["x"]]), Reference(answers)],
    )
    assert found["version"] == version


def test_what_cannot_be_compared_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    run = samples(range(100))
    a = write(tmp_path / "a", run)
    with pytest.raises(EvalError, match=r"b has 199 of 200 samples: finish it"):
        compare_runs(a, write(tmp_path / "b", samples(range(100), 199)))
    with pytest.raises(EvalError, match="in one run only"):
        compare_samples(run, samples([], 3), margin=0.0)
    with pytest.raises(EvalError, match="no samples"):
        compare_samples({}, {}, margin=0.0)
    with pytest.raises(EvalError, match="--subject agent.contxt: neither run has such a setting"):
        compare_runs(a, a, subjects=["agent.contxt"])
    with pytest.raises(EvalError, match="--margin is 3"):
        compare_runs(a, a, margin=3)
    with pytest.raises(EvalError, match="not the folder of an evaluation"):
        compare_runs(a, tmp_path / "none")


def test_the_command_prints_tables_and_the_verdict(tmp_path: Path) -> None:
    after = samples(range(10, 140))
    after["q199"]["failure"] = {"cause": "timeout", "message": ""}
    a, b = write(tmp_path / "a", samples(range(100))), write(tmp_path / "b", after, model={"sha256": "b"})
    code, text = call(a, b, "--margin", "0.03")
    assert code == 0
    cells = [cell.strip() for cell in re.split("[│┃]", text)]
    start = cells.index("90")
    assert cells[start : start + 5] == ["90", "10", "40", "60", "+0.150"]
    assert "B is better (EM, margin 0.03)" in text
    assert "0 in A, 1 in B" in text
    code, text = call(a, b, "--subject", "agent")
    assert code == 1
    assert "differ in model.sha256: 'a' → 'b'" in text


def test_a_run_in_which_everything_failed_is_compared_with_nothing() -> None:
    dead = {
        name: {**sample, "failure": {"cause": "x", "message": ""}} for name, sample in samples([]).items()
    }
    for pair, name in (((samples([1]), dead), "B"), ((dead, samples([1])), "A")):
        with pytest.raises(EvalError, match=f"all 200 questions of {name} failed"):
            compare_samples(*pair, margin=0.1)


def test_json_holds_the_same_numbers(tmp_path: Path) -> None:
    a = write(tmp_path / "a", samples(range(100)))
    b = write(tmp_path / "b", samples(range(10, 140)), model={"sha256": "b"})
    code, text = call(a, b, "--json")
    told = json.loads(text)
    assert code == 0
    assert told == compare_runs(a, b).to_json()
    assert [told[name] for name in ("n", "both", "only_a", "only_b", "neither")] == [200, 90, 10, 40, 60]
    assert told["verdict"] == "better"
    assert told["subject"] == ["model.sha256: 'a' → 'b'"]


def test_help_states_the_rule() -> None:
    text = " ".join(call("--help")[1].split())
    for words in ("lies above 0", "lies below −margin", "undecided", "fewer than 6 questions"):
        assert words in text
