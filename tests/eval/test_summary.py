"""The numbers of a run, from samples that are written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from eval.errors import EvalError
from eval.sample import Sample, failed_sample
from eval.summary import NUMBERS, summarize
from eval.summary_table import summary_table
from eval.tasks import Question
from mempo.task import Reference, Task


def sample(number: int, **changes: Any) -> Sample:
    return {
        "id": f"q{number}",
        "data_source": "nq",
        "hops": 2,
        "type": "bridge",
        "objectives": 2,
        "prediction": "x; y",
        "em": 0.5,
        "em_sum": 1.0,
        "em_each": [True, False],
        "f1": 0.75,
        "f1_sum": 1.5,
        "sub_em": 1.0,
        "sub_em_sum": 2.0,
        "reward": 0.5,
        "format_ok": True,
        "format_reason": None,
        "stop": "answered",
        "failure": None,
        "turns": 3,
        "searches": 2,
        "failed_searches": 0,
        "tokens": {"prompt": 300, "response": 60, "peak": 150, "dependency": 9000.5},
        "support": {"search": 1.0, "memory": 0.5},
        "usage": {"prompt": 310, "completion": 62},
        "seconds": 2.0,
        **changes,
    }


def failed(number: int) -> Sample:
    question = Question(
        number, Task(f"q{number}", "?", 2), Reference([["x"], ["y"]], ["P"]), "nq", 2, "bridge"
    )
    return failed_sample(question, "timeout", "too late", seconds=4.0)


def test_every_number_has_a_mean_and_an_interval_around_it() -> None:
    summary = summarize([sample(n, em=n % 2, f1=n % 2, turns=n) for n in range(40)])
    for name in NUMBERS:
        low, high = summary[f"{name}_ci"]
        assert low <= summary[name] <= high
    assert (summary["em"], summary["turns"]) == (0.5, 19.5)
    assert summary["em_ci"][0] < 0.4 < 0.6 < summary["em_ci"][1]
    assert (summary["total_tokens"], summary["peak_tokens"], summary["dependency"]) == (360, 150, 9000.5)
    assert (summary["sub_em"], summary["sub_em_sum"], summary["f1_sum"]) == (1.0, 2.0, 1.5)


def test_a_failed_question_stays_in_every_denominator() -> None:
    summary = summarize([sample(0), sample(1), sample(2), failed(3)])
    assert summary["n"] == 4
    assert (summary["em"], summary["sub_em_sum"], summary["format_share"]) == (0.375, 1.5, 0.75)
    assert (summary["support_by_search"], summary["support_by_memory"], summary["support_n"]) == (
        0.75,
        0.375,
        4,
    )
    assert (summary["failures"], summary["failed"]) == ({"timeout": 1}, 1)
    assert summary["total_tokens"] == 270


def test_a_missing_box_is_counted_whatever_the_verifier_says_of_the_format() -> None:
    verified = {"boxed_exact": 0.0, "boxed_em": 0.0, "lenient": 1.0}
    boxed, lenient = sample(0, verified=verified), sample(1, verified=verified, prediction=None)
    strict = sample(2, verified=verified, prediction=None, format_ok=False, format_reason="box_missing")
    question = Question(3, Task("q3", "?", 2), Reference([["x"], ["y"]], ["P"]), "nq", 2, "bridge")
    lost = failed_sample(question, "timeout", "too late", seconds=4.0, boxed=True)
    summary = summarize([boxed, lenient, strict, lost])
    assert (summary["missing_box"], summary["lenient"], summary["boxed_em"]) == (2, 0.75, 0.0)
    summary = summarize([lost])
    assert [summary[name] for name in verified] == [0.0, 0.0, 0.0]
    assert summary["missing_box"] == 0
    assert "missing_box" not in summarize([sample(0), failed(1)])


def test_support_counts_questions_with_gold_paragraphs_only() -> None:
    summary = summarize(
        [sample(0), sample(1, support=None), sample(2, support={"search": 0.0, "memory": 0.0})]
    )
    assert (summary["support_by_search"], summary["support_by_memory"], summary["support_n"]) == (
        0.5,
        0.25,
        2,
    )
    summary = summarize([sample(0, support=None)])
    assert summary["support_by_search"] is summary["support_by_search_ci"] is None
    assert summary["support_n"] == 0


def test_samples_of_an_earlier_version_lack_the_later_numbers() -> None:
    old = sample(0, tokens={"prompt": 300, "response": 60, "peak": 150})
    for name in ("support", "f1_sum", "sub_em_sum"):
        del old[name]
    summary = summarize([old])
    assert summary["dependency"] is summary["dependency_ci"] is summary["sub_em_sum"] is None
    assert summary["em"] == 0.5


def test_reasons_and_groups_are_counted() -> None:
    summary = summarize(
        [
            sample(0, format_ok=False, format_reason="answer_missing", stop="max_turns", objectives=10, em=0),
            sample(1, format_ok=False, format_reason="answer_missing", data_source="popqa"),
            sample(2, hops=4, failed_searches=1),
        ]
    )
    assert summary["format_reasons"] == {"answer_missing": 2}
    assert summary["stop"] == {"answered": 2, "max_turns": 1}
    assert summary["failed_searches"] == 1
    assert summary["by_source"] == {"nq": {"em": 0.25, "n": 2}, "popqa": {"em": 0.5, "n": 1}}
    assert list(summary["by_objectives"].items()) == [("2", {"em": 0.5, "n": 2}), ("10", {"em": 0.0, "n": 1})]
    assert summary["by_hops"] == {"2": {"em": 0.25, "n": 2}, "4": {"em": 0.5, "n": 1}}


def test_no_samples_are_an_error() -> None:
    with pytest.raises(EvalError, match="no samples"):
        summarize([])


def test_the_table_shows_sums_and_support_where_there_are_any() -> None:
    def cells(samples: list[Sample]) -> dict[str, str]:
        table = summary_table("run", summarize(samples))
        return dict(zip(*(list(map(str, column.cells)) for column in table.columns), strict=True))

    several = cells([sample(0), failed(1)])
    assert several["sums: EM, F1, sub-EM"] == "0.50, 0.75, 1.00"
    assert several["support: searched, in memory"] == "0.500, 0.250  (of 2 questions)"
    assert several["failures"] == "timeout 1"
    assert several["EM"].startswith("0.250 ± 0.250  (95 %: 0.000 to 0.500")
    chat = sample(0)
    chat["estimated_tokens"] = chat.pop("tokens")
    assert cells([chat])["estimated tokens: total, peak"] == "360, 150"
    single = cells([sample(0, objectives=1, support=None)])
    assert not {"sums: EM, F1, sub-EM", "support: searched, in memory", "failures"} & single.keys()
