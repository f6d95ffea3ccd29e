from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval.errors import EvalError
from eval.tasks import choose, read_questions
from tests.eval.support import write_questions
from tools.data.convert import ConvertSettings, convert


def test_questions_come_with_their_gold_in_file_order(tmp_path: Path) -> None:
    questions = read_questions(write_questions(tmp_path / "v.parquet", 3))
    assert [question.task.id for question in questions] == ["q0", "q1", "q2"]
    assert questions[1].reference.answers == [["Answer 1"]]
    assert questions[1].hops == 2


def broken(path: Path, field: str, key: str, value: object) -> Path:
    rows = pq.read_table(write_questions(path, 3)).to_pylist()
    rows[1][field][key] = value
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize(
    ("field", "key", "value", "message"),
    [
        ("task", "question", " ", r"row 1 \('q1'\): task.question is the blank text"),
        ("task", "objectives", 2, "row 1 .*2 objectives but reference.answers has 1 lists"),
        ("task", "id", "q0", r"row 1 \('q0'\): task.id is that of row 0 too"),
        ("reference", "answers", [], "row 1 .*reference.answers is empty: write one list"),
        ("reference", "answers", [[]], r"row 1 .*answers\[0\] is empty"),
        ("extra_info", "hops", -1, "row 1 .*extra_info.hops is the number -1"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, field: str, key: str, value: object, message: str) -> None:
    with pytest.raises(EvalError, match=message):
        read_questions(broken(tmp_path / "v.parquet", field, key, value))


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="no such file"):
        read_questions(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(EvalError, match="not a readable parquet"):
        read_questions(tmp_path / "text.parquet")
    pq.write_table(pa.table({"question": ["x"]}), tmp_path / "other.parquet")
    with pytest.raises(EvalError, match="columns data_source, task, reference, extra_info are missing"):
        read_questions(tmp_path / "other.parquet")


RECORD: dict[str, Any] = {"id": "q", "question": "Who?", "answers": "Ann"}


def lines(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in records))
    return path


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("Ann; Lee", [["Ann; Lee"]]),
        (["Ann", "A. Lee"], [["Ann", "A. Lee"]]),
        ([["Ann", "A. Lee"], ["1901"]], [["Ann", "A. Lee"], ["1901"]]),
    ],
)
def test_json_lines_take_an_answer_its_aliases_or_one_list_per_objective(
    tmp_path: Path, answers: Any, expected: list[list[str]]
) -> None:
    [question] = read_questions(lines(tmp_path / "nq.jsonl", RECORD | {"answers": answers}, "", " "))
    assert question.reference.answers == expected
    assert question.task.objectives == len(expected)
    assert (question.index, question.data_source, question.hops, question.type) == (0, "nq", 0, "")


def test_json_lines_and_a_json_list_read_the_same(tmp_path: Path) -> None:
    more = {"supporting": ["Page"], "data_source": "own", "hops": 2, "type": "bridge"}
    records = [RECORD | {"id": 7}, RECORD | {"question": "Где\u2028?"} | more]
    from_lines = read_questions(lines(tmp_path / "a.jsonl", *records))
    assert from_lines[0].task.id == "7"
    assert (from_lines[1].reference.supporting, from_lines[1].hops) == (["Page"], 2)
    (tmp_path / "a.json").write_text(json.dumps(records))
    assert read_questions(tmp_path / "a.json") == from_lines
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(each, ensure_ascii=False) for each in records))
    assert read_questions(tmp_path / "a.jsonl") == from_lines
    assert choose(from_lines, None, 0) == from_lines


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("{broken", "line 2: not JSON"),
        ("[1]", "line 2: an object is expected, got list"),
        (RECORD, "line 1 and line 2 have the same task.id 'q'"),
        ({"id": "r", "question": "Who?"}, "line 2: field answers: is missing"),
        ({"answers": ["Ann"], "question": "Who?"}, "line 2: field id: is missing"),
        (RECORD | {"id": 1.5}, "line 2: field id: a text"),
        (RECORD | {"id": "r", "question": " "}, "line 2: field question: a text that is not blank"),
        (
            RECORD | {"id": "r", "answers": [["Ann"], []]},
            "line 2: field answers: a string, a list of aliases",
        ),
        (RECORD | {"id": "r", "answers": []}, "line 2: field answers: a string, a list"),
        (RECORD | {"id": "r", "answers": ["Ann", 1]}, "line 2: field answers: a string, a list"),
        (RECORD | {"id": "r", "answers": [" "]}, "line 2: field answers: an answer is blank"),
        (RECORD | {"id": "r", "supporting": "Page"}, "line 2: field supporting: a list of titles"),
        (RECORD | {"id": "r", "hops": "two"}, "line 2: field hops: a whole number"),
    ],
)
def test_a_broken_line_is_named_with_its_field(tmp_path: Path, second: Any, message: str) -> None:
    with pytest.raises(EvalError, match=message):
        read_questions(lines(tmp_path / "v.jsonl", RECORD, second))


def test_a_json_file_that_holds_nothing_is_an_error(tmp_path: Path) -> None:
    for name, text in (("a.jsonl", " \n"), ("b.json", "[]"), ("c.json", "[1, ")):
        (tmp_path / name).write_text(text)
    with pytest.raises(EvalError, match=r"a\.jsonl: no records"):
        read_questions(tmp_path / "a.jsonl")
    with pytest.raises(EvalError, match=r"b\.json: no records"):
        read_questions(tmp_path / "b.json")
    with pytest.raises(EvalError, match=r"c\.json: not JSON"):
        read_questions(tmp_path / "c.json")


def test_what_the_converters_write_is_what_is_read(tmp_path: Path) -> None:
    records = [{"question": f"who is {n}?", "answers": [f"Ann {n}", f"A{n}"]} for n in range(12)]
    source = lines(tmp_path / "in.jsonl", *records)
    settings = ConvertSettings("jsonl", [source], tmp_path, objectives=4, validation_only=True, name="nq")
    convert(settings)
    questions = read_questions(tmp_path / "validation.parquet")
    assert [question.task.objectives for question in questions] == [4, 4, 4]
    assert all(len(aliases) == 2 for question in questions for aliases in question.reference.answers)
    assert {question.data_source for question in questions} == {"nq"}
