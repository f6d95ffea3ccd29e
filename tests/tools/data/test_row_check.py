"""A file is held against the schema before a run reads it; documents are not read for that."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mempo.task import Reference, Task
from tools.data.row_check import check_file
from tools.data.schema import QuestionRow, SchemaError, read_rows, write_rows


def rows(count: int, document: str = "") -> list[QuestionRow]:
    return [
        QuestionRow(
            Task(f"q{n}", f"Who is {n}?", document=document), Reference([["Ann"]]), "made", "train", n
        )
        for n in range(count)
    ]


def written(path: Path, changes: dict[str, Any], count: int = 4) -> Path:
    """A file of ours with other values in row 2: `column.field` or `column`."""
    table = [row.to_columns() for row in rows(count)]
    for name, value in changes.items():
        column, _, field = name.partition(".")
        if field:
            table[2][column][field] = value
        else:
            table[2][column] = value
    pq.write_table(pa.Table.from_pylist(table), path)
    return path


def test_a_good_file_has_no_problems(tmp_path: Path) -> None:
    write_rows(tmp_path / "t.parquet", rows(3))
    found = check_file(tmp_path / "t.parquet")
    assert (found.problems, found.rows) == ([], 3)
    assert found.questions == {f"q{n}": f"Who is {n}?" for n in range(3)}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"task.question": None}, "row 2 ('q2'): task.question is empty (null)"),
        ({"task.id": "q0"}, "row 2 ('q0'): task.id is that of row 0 too"),
        ({"reference.answers": []}, "row 2 ('q2'): reference.answers is empty"),
        ({"reference.answers": [[" "]]}, "row 2 ('q2'): reference.answers[0][0] is the blank text"),
        ({"reference.answers": None}, "row 2 ('q2'): reference.answers is empty (null)"),
        ({"agent_name": "tool_agent"}, "row 2 ('q2'): agent_name is 'tool_agent': write 'mempo'"),
        ({"agent_name": None}, "row 2 ('q2'): agent_name is None: write 'mempo'"),
        ({"task": None}, "row 2: task is empty (null)"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    path = written(tmp_path / "t.parquet", changes)
    (problem,) = check_file(path).problems
    assert problem.startswith(f"{path}, {told}")
    if "agent_name" not in changes:
        with pytest.raises(SchemaError) as refused:
            read_rows(path)
        assert str(refused.value) == problem, "the same rules wherever the rows are read"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (["rome"], "reference.answers[0] is the text 'rome'"),
        ([[1912]], "reference.answers[0][0] is the number 1912"),
        ([[float("nan")]], "reference.answers[0][0] is NaN"),
        ([[b"rome"]], "reference.answers[0][0] is bytes (b'rome')"),
    ],
)
def test_a_column_of_another_type_is_refused_row_by_row(tmp_path: Path, answers: Any, told: str) -> None:
    table = [row.to_columns() for row in rows(9)]
    for row in table:
        row["reference"]["answers"] = answers
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "t.parquet")
    problems = check_file(tmp_path / "t.parquet").problems
    assert told in problems[0]
    assert problems[-1].endswith("9 faults in all, the first 5 are named above")


@pytest.mark.parametrize(
    "column", ["agent_name", "prompt", "task", "reference", "data_source", "reward_model"]
)
def test_a_missing_column_is_named_with_the_remedy(tmp_path: Path, column: str) -> None:
    path = tmp_path / "t.parquet"
    write_rows(path, rows(2))
    pq.write_table(pq.read_table(path).drop_columns([column]), path)
    (problem,) = check_file(path).problems
    assert problem.startswith(f"{path}: column {column} is missing: write the file with `mempo data`")


def test_a_prompt_that_is_no_list_of_messages_is_named(tmp_path: Path) -> None:
    table = [{**row.to_columns(), "prompt": "Who?"} for row in rows(2)]
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "t.parquet")
    assert (
        "column prompt is string: write a list of messages" in check_file(tmp_path / "t.parquet").problems[0]
    )


def test_a_file_without_rows_or_of_another_kind_is_named(tmp_path: Path) -> None:
    write_rows(tmp_path / "t.parquet", rows(1))
    empty = pq.read_table(tmp_path / "t.parquet").slice(0, 0)
    pq.write_table(empty, tmp_path / "e.parquet")
    assert "has no rows" in check_file(tmp_path / "e.parquet").problems[0]
    (tmp_path / "x.parquet").write_text("no parquet")
    assert "not a readable parquet file" in check_file(tmp_path / "x.parquet").problems[0]


def test_documents_are_asked_for_where_the_agent_reads(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_rows(path, rows(2))
    assert "its rows have no task.document" in check_file(path, documents=True).problems[0]
    write_rows(path, rows(2, "long"))
    assert check_file(path, documents=True).problems == []


@pytest.mark.parametrize("lacking", [None, "", "  \n"])
@pytest.mark.parametrize("statistics", [True, False])
def test_rows_without_a_document_are_counted_and_named(
    tmp_path: Path, lacking: Any, statistics: bool
) -> None:
    table = [row.to_columns() for row in rows(9, "long")]
    for place in (4, 7):
        table[place]["task"]["document"] = lacking
    pq.write_table(
        pa.Table.from_pylist(table), tmp_path / "t.parquet", row_group_size=3, write_statistics=statistics
    )
    (problem,) = check_file(tmp_path / "t.parquet", documents=True).problems
    assert "2 rows have no task.document (row 4, 7)" in problem
    assert check_file(tmp_path / "t.parquet").problems == [], "nobody else asks for them"


def test_numbers_as_documents_are_refused(tmp_path: Path) -> None:
    table = [row.to_columns() for row in rows(2)]
    for row in table:
        row["task"]["document"] = 7
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "t.parquet")
    assert "task.document is int64" in check_file(tmp_path / "t.parquet", documents=True).problems[0]


def test_twenty_thousand_rows_are_no_wait(tmp_path: Path) -> None:
    one = rows(1)[0].to_columns()
    table = pa.Table.from_pylist([{**one, "task": {**one["task"], "id": f"q{n}"}} for n in range(20_000)])
    pq.write_table(table, tmp_path / "t.parquet")
    started = time.process_time()
    assert check_file(tmp_path / "t.parquet").rows == 20_000
    assert time.process_time() - started < 5  # 0.4 s on a free core
