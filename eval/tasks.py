"""Questions from the parquet files that `mempo data` and `mempo world` write, or from JSON lines."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eval.errors import EvalError
from eval.gold import alias_lists
from eval.json_records import read_json_records
from mempo.cells import record, text, whole_number
from mempo.question_rows import RowFaults
from mempo.task import Reference, Task

_COLUMNS = ("data_source", "task", "reference", "extra_info")
_JSON_ENDINGS = (".jsonl", ".json", ".ndjson")


@dataclass(frozen=True)
class Question:
    """One question with its gold; `index` is its place in the file, from 0."""

    index: int
    task: Task
    reference: Reference
    data_source: str
    hops: int
    type: str


def read_questions(path: Path) -> list[Question]:
    """All questions of a file, in order.

    Args:
        path: parquet in the schema of `tools.data.schema`, or JSON lines (`.jsonl`, `.json`, `.ndjson`; a JSON list too)
            with `id`, `question` and `answers` (see `eval.gold`: several lists of aliases make several objectives), and
            optionally `document` (for agents that read), `supporting` (titles), `data_source` (default: the file's name),
            `hops` and `type`.

    Raises:
        EvalError: if the file, a column or a row is not as expected, naming it; also for an id that occurs twice.
    """
    if not path.is_file():
        raise EvalError(f"{path}: no such file; `mempo data` and `mempo world` write validation.parquet")
    if path.suffix not in _JSON_ENDINGS:
        return _parquet_questions(path)
    found = _json_questions(path)
    seen: dict[str, str] = {}
    for place, question in found:
        first = seen.setdefault(question.task.id, place)
        if first != place:
            raise EvalError(f"{path}: {first} and {place} have the same task.id {question.task.id!r}")
    return [question for _, question in found]


def _parquet_questions(path: Path) -> list[Question]:
    try:
        names = set(pq.read_schema(path).names)
        missing = [name for name in _COLUMNS if name not in names]
        if missing:
            raise EvalError(
                f"{path}: columns {', '.join(missing)} are missing; `mempo data` converts files of other layouts"
            )
        rows = pq.read_table(path, columns=list(_COLUMNS)).to_pylist()
    except pa.ArrowException as error:
        raise EvalError(f"{path}: not a readable parquet file: {error}") from error
    faults, questions = RowFaults(path), []
    for index, row in enumerate(rows):
        checked = faults.check(index, row)
        if checked is not None:
            try:
                questions.append(_question(index, *checked, row))
            except ValueError as error:
                faults.add(index, checked[0].id, str(error))
    if faults:
        raise EvalError("\n".join(faults.lines))
    return questions


def _json_questions(path: Path) -> list[tuple[str, Question]]:
    records = enumerate(read_json_records(path))
    return [(place, _json_question(path, index, place, record)) for index, (place, record) in records]


def _json_question(path: Path, index: int, place: str, record: dict[str, Any]) -> Question:
    def field(name: str, read: Callable[[Any], Any], default: Any = None) -> Any:
        value = record.get(name)
        if value is None and default is not None:
            return default
        try:
            if value is None:
                raise ValueError("is missing")
            return read(value)
        except ValueError as error:
            raise EvalError(f"{path}, {place}: field {name}: {error}") from error

    answers = field("answers", alias_lists)
    return Question(
        index=index,
        task=Task(
            field("id", _identifier), field("question", _text), len(answers), field("document", _text, "")
        ),
        reference=Reference(answers, field("supporting", _titles, [])),
        data_source=field("data_source", _text, path.stem),
        hops=field("hops", _count, 0),
        type=field("type", _text, ""),
    )


def _identifier(value: Any) -> str:
    return str(value) if type(value) is int else _text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"a text that is not blank is expected, got {value!r}")
    return value


def _titles(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"a list of titles is expected, got {value!r}")
    return [_text(title) for title in value]


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"a whole number is expected, got {value!r}")
    return value


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


def _question(index: int, task: Task, reference: Reference, row: dict[str, Any]) -> Question:
    extra = {} if row["extra_info"] is None else record(row["extra_info"], "extra_info")
    hops, kind = extra.get("hops"), extra.get("type")
    return Question(
        index=index,
        task=task,
        reference=reference,
        data_source=text(row["data_source"], "data_source"),
        hops=0 if hops is None else whole_number(hops, "extra_info.hops"),
        type="" if kind is None else text(kind, "extra_info.type", blank=True),
    )
