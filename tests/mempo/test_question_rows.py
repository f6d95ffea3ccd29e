"""Rows are taken as they are or refused: row, field, what was found, what to write; nothing is made into something else."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mempo.question_rows import SHOWN, RowFaults
from mempo.task import Reference, Task

TASK = {"id": "q1", "question": "Who?", "objectives": 1}
GOLD = {"answers": [["Ann"]], "supporting": []}
NAN = float("nan")


def faults(*rows: dict[str, Any]) -> RowFaults:
    found = RowFaults("f.parquet")
    for number, row in enumerate(rows):
        found.check(number, row)
    return found


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (["rome"], r"reference\.answers\[0\] is the text 'rome': write one list .*\[\['Rome', 'Roma'\]\]"),
        ("rome", r"reference\.answers is the text 'rome': write one list"),
        (None, r"reference\.answers is empty \(null\): write one list"),
        ([], r"reference\.answers is empty: write one list"),
        ([[]], r"reference\.answers\[0\] is empty: every objective needs"),
        ([None], r"reference\.answers\[0\] is empty \(null\)"),
        ([[None]], r"reference\.answers\[0\]\[0\] is empty \(null\): write the gold answer as a text"),
        ([["Ann", None]], r"reference\.answers\[0\]\[1\] is empty \(null\)"),
        ([[NAN]], r"reference\.answers\[0\]\[0\] is NaN"),
        ([[b"rome"]], r"reference\.answers\[0\]\[0\] is bytes \(b'rome'\)"),
        ([b"rome"], r"reference\.answers\[0\] is bytes"),
        ([[1912]], r"reference\.answers\[0\]\[0\] is the number 1912: write the gold answer as a text"),
        ([[True]], r"reference\.answers\[0\]\[0\] is the truth value True"),
        ([[" \n"]], r"reference\.answers\[0\]\[0\] is the blank text"),
        ([[["Ann"]]], r"reference\.answers\[0\]\[0\] is a list"),
        ({"a": 1}, r"reference\.answers is a dict"),
        (np.array(["rome"], dtype=object), r"reference\.answers\[0\] is the text 'rome'"),
        (np.array([np.array([1.5])], dtype=object), r"reference\.answers\[0\]\[0\] is the number 1\.5"),
    ],
)
def test_answers_that_are_no_lists_of_texts_are_refused(answers: Any, told: str) -> None:
    found = faults({"task": TASK, "reference": {**GOLD, "answers": answers}})
    assert found.count == 1
    assert re.fullmatch(rf"f\.parquet, row 0 \('q1'\): {told}.*", found.lines[0]), found.lines[0]


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("question", None, "is empty (null): write the question as a text"),
        ("question", "", "is the blank text ''"),
        ("question", 7, "is the number 7"),
        ("question", NAN, "is NaN"),
        ("question", b"Who?", "is bytes (b'Who?')"),
        ("id", None, "is empty (null): write the question's name as a text"),
        ("id", 7, "is the number 7"),
        ("id", " ", "is the blank text"),
        ("objectives", 1.0, "is the number 1.0: write a whole number of at least 1"),
        ("objectives", True, "is the truth value True"),
        ("objectives", 0, "is the number 0"),
        ("objectives", None, "is empty (null)"),
        ("objectives", "1", "is the text '1'"),
        ("document", 3, "is the number 3"),
        ("document", NAN, "is NaN"),
    ],
)
def test_a_task_of_other_types_is_refused(field: str, value: Any, told: str) -> None:
    found = faults({"task": {**TASK, field: value}, "reference": GOLD})
    assert found.count == 1
    assert f"task.{field} {told}" in found.lines[0]
    with pytest.raises(ValueError, match=f"task.{field} is"):
        Task.from_columns({**TASK, field: value})


@pytest.mark.parametrize("row", [{}, {"task": "{}", "reference": "{}"}, {"task": None, "reference": None}])
def test_columns_that_hold_no_record_are_named(row: dict[str, Any]) -> None:
    assert [line.split(": ")[1].split(" is ")[0] for line in faults(row).lines] == ["task", "reference"]


def test_a_missing_field_is_named_with_those_that_are_there() -> None:
    lines = faults({"task": {"id": "q1", "query": "Who?"}, "reference": {"answer": "Ann"}}).lines
    assert lines == [
        "f.parquet, row 0 ('q1'): task.question is missing: the record has id, query",
        "f.parquet, row 0 ('q1'): reference.answers is missing: the record has answer",
    ]


@pytest.mark.parametrize("titles", ["Rome", [None], [7]])
def test_titles_are_texts_too(titles: Any) -> None:
    assert (
        "reference.supporting" in faults({"task": TASK, "reference": {**GOLD, "supporting": titles}}).lines[0]
    )


def test_what_parquet_gives_is_taken() -> None:
    gold = {"answers": np.array([np.array(["Ann", "A."], dtype=object)], dtype=object), "supporting": None}
    task = {"id": np.str_("q1"), "question": "Who?", "objectives": np.int64(1), "document": None}
    found = RowFaults("f")
    assert found.check(0, {"task": task, "reference": gold}) == (
        Task("q1", "Who?"),
        Reference([["Ann", "A."]]),
    )
    two_dimensional = {"answers": np.array([["Ann"], ["Rome"]]), "supporting": ["T"]}
    both = found.check(1, {"task": {**TASK, "id": "q2", "objectives": 2}, "reference": two_dimensional})
    assert both is not None
    assert both[1].answers == [["Ann"], ["Rome"]]
    assert not found
    assert found.questions == {"q1": "Who?", "q2": "Who?"}


def test_an_id_that_comes_again_names_both_rows() -> None:
    row = {"task": TASK, "reference": GOLD}
    assert faults(row, {**row, "task": {**TASK, "id": "q2"}}, row).lines == [
        "f.parquet, row 2 ('q1'): task.id is that of row 0 too: give every row an id of its own"
    ]


def test_objectives_and_lists_of_answers_are_as_many() -> None:
    (line,) = faults({"task": {**TASK, "objectives": 2}, "reference": GOLD}).lines
    assert "task.objectives is 2 objectives but reference.answers has 1 lists" in line


def test_of_many_faults_the_first_are_named_and_all_are_counted() -> None:
    rows = [
        {"task": {**TASK, "id": f"q{n}", "question": None}, "reference": {"answers": ["x"]}}
        for n in range(40)
    ]
    found = faults(*rows)
    assert found.count == 80
    assert len(found.lines) == SHOWN + 1
    assert found.lines[-1] == f"f.parquet: 80 faults in all, the first {SHOWN} are named above"
