"""Questions from the parquet files that `mempo data` and `mempo world` write."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eval.errors import EvalError
from mempo.task import Reference, Task

_COLUMNS = ("data_source", "task", "reference", "extra_info")


@dataclass(frozen=True)
class Question:
    """One question with its gold; `index` is its row in the file."""

    index: int
    task: Task
    reference: Reference
    data_source: str
    hops: int
    type: str


def read_questions(path: Path) -> list[Question]:
    """All questions of a file, in order.

    Raises:
        EvalError: if the file, a column or a row is not as expected, naming it; also for an id that occurs twice.
    """
    if not path.is_file():
        raise EvalError(f"{path}: no such file; `mempo data` and `mempo world` write validation.parquet")
    try:
        names = set(pq.read_schema(path).names)
        missing = [name for name in _COLUMNS if name not in names]
        if missing:
            raise EvalError(f"{path}: columns {', '.join(missing)} are missing")
        rows = pq.read_table(path, columns=list(_COLUMNS)).to_pylist()
    except pa.ArrowException as error:
        raise EvalError(f"{path}: not a readable parquet file: {error}") from error
    questions = [_question(path, index, row) for index, row in enumerate(rows)]
    seen: dict[str, int] = {}
    for question in questions:
        first = seen.setdefault(question.task.id, question.index)
        if first != question.index:
            raise EvalError(
                f"{path}: rows {first} and {question.index} have the same task.id {question.task.id!r}"
            )
    return questions


def choose(questions: list[Question], count: int | None, seed: int) -> list[Question]:
    """`count` questions drawn by `seed`, in file order; None takes all. The same draw for every model and mode.

    Raises:
        EvalError: if there are not that many.
    """
    if count is None or count == len(questions):
        return list(questions)
    if not 0 < count < len(questions):
        raise EvalError(f"{count} questions were asked for, the file has {len(questions)}")
    picked = random.Random(seed).sample(range(len(questions)), count)
    return [questions[index] for index in sorted(picked)]


def _question(path: Path, index: int, row: dict[str, Any]) -> Question:
    try:
        task = Task(
            id=str(row["task"]["id"]),
            question=str(row["task"]["question"]),
            objectives=int(row["task"]["objectives"]),
        )
        reference = Reference.from_columns(row["reference"])
        if len(reference.answers) != task.objectives:
            raise ValueError(f"{task.objectives} objectives but {len(reference.answers)} lists of answers")
        extra = row["extra_info"] or {}
        return Question(
            index=index,
            task=task,
            reference=reference,
            data_source=str(row["data_source"]),
            hops=int(extra.get("hops") or 0),
            type=str(extra.get("type") or ""),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise EvalError(f"{path}, row {index}: {type(error).__name__}: {error}") from error
