"""The parquet schema: round trip, numpy columns, named errors."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mempo.task import Reference, Task
from tools.data.schema import COLUMNS, QuestionRow, SchemaError, read_rows, write_rows


def row(name: str = "q1", index: int = 0) -> QuestionRow:
    return QuestionRow(
        task=Task(id=name, question="Who? ; Where?", objectives=2),
        reference=Reference(answers=[["Ann", "A. Lee"], ["北京"]], supporting=["Film", "Ann"]),
        data_source="made",
        split="train",
        index=index,
        hops=3,
        type="bridge",
    )


def test_rows_survive_a_round_trip(tmp_path):
    rows = [row("q1", 0), row("q2", 1)]
    assert write_rows(tmp_path / "deep" / "train.parquet", rows) == 2
    assert read_rows(tmp_path / "deep" / "train.parquet") == rows


def test_columns_are_the_contract_and_the_task_holds_no_gold(tmp_path):
    write_rows(tmp_path / "a.parquet", [row()])
    record = pq.read_table(tmp_path / "a.parquet").to_pylist()[0]
    assert list(record) == COLUMNS.names
    assert record["agent_name"] == "mempo"
    assert record["prompt"] == [{"role": "user", "content": "Who? ; Where?"}]
    assert set(record["task"]) == {"id", "question", "objectives"}
    assert record["reward_model"] == {"style": "rule", "ground_truth": '[["Ann", "A. Lee"], ["北京"]]'}
    assert "Ann" not in str(record["task"]) + str(record["prompt"])


def test_numpy_list_columns_are_accepted(tmp_path):
    write_rows(tmp_path / "a.parquet", [row()])
    columns = pq.read_table(tmp_path / "a.parquet").to_pandas().iloc[0].to_dict()
    assert isinstance(columns["reference"]["answers"], np.ndarray)
    assert QuestionRow.from_columns(columns) == row()


def test_same_rows_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_rows(tmp_path / f"{name}.parquet", [row()])
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_repeated_ids_and_empty_files_are_refused(tmp_path):
    with pytest.raises(SchemaError, match="task id 'q1'"):
        write_rows(tmp_path / "a.parquet", [row(), row()])
    with pytest.raises(SchemaError, match="no rows"):
        write_rows(tmp_path / "a.parquet", [])


def test_answers_must_match_the_objectives():
    with pytest.raises(ValueError, match="3 objectives but 1 lists"):
        QuestionRow(Task("q", "a?", 3), Reference([["x"]]), "made", "train", 0)


def test_missing_columns_and_bad_rows_are_named(tmp_path):
    path = tmp_path / "a.parquet"
    record = row().to_columns()
    pq.write_table(pa.Table.from_pylist([record], schema=COLUMNS).drop_columns(["reference"]), path)
    with pytest.raises(SchemaError, match="column reference missing"):
        read_rows(path)
    record["reference"]["answers"] = [["Ann"], []]
    pq.write_table(pa.Table.from_pylist([record], schema=COLUMNS), path)
    with pytest.raises(SchemaError, match=r"row 0 \('q1'\): .*every objective"):
        read_rows(path)
