from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval.errors import EvalError
from eval.tasks import read_questions
from tests.eval.support import write_questions


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
        ("task", "question", " ", "row 1: .*blank"),
        ("task", "objectives", 2, "row 1: .*2 objectives but 1 lists"),
        ("task", "id", "q0", "rows 0 and 1 have the same task.id 'q0'"),
        ("reference", "answers", [], "row 1: .*at least one accepted answer"),
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
