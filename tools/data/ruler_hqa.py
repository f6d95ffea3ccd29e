"""The layout of RULER-HQA, MemAgent's evaluation sets: one question and its whole document per line.

Fields: `index`, `id`, `input` (the question), `context` (the document), `answers` (aliases), `num_docs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mempo.task import Reference, Task
from tools.data.question import MalformedRecord, string, usable_answers
from tools.data.records import DataError, read_records
from tools.data.schema import QuestionRow


def ruler_hqa_record(row: QuestionRow, documents: int) -> dict[str, Any]:
    """A row of ours in that layout."""
    return {
        "index": row.index,
        "id": row.task.id,
        "input": row.task.question,
        "context": row.task.document,
        "answers": row.reference.answers[0],
        "num_docs": documents,
    }


def read_ruler_hqa(path: Path) -> Iterator[QuestionRow]:
    """The questions of such a file (JSON lines, or a list) as rows of a validation split.

    Raises:
        DataError: a record lacks a field, naming place and field.
    """
    for number, (place, record) in enumerate(read_records(path)):
        try:
            if isinstance(record, MalformedRecord):
                raise record
            given = record.get("answers")
            if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
                raise MalformedRecord("answers", "a list of strings is expected")
            name = record.get("id", record.get("_id", record.get("index", number)))
            document = record.get("context")
            if not isinstance(document, str) or not document.strip():
                raise MalformedRecord("context", "a text is expected")
            yield QuestionRow(
                task=Task(str(name), string(record, "input"), document=document),
                reference=Reference([usable_answers(given, "answers")]),
                data_source=path.stem,
                split="validation",
                index=number,
            )
        except MalformedRecord as error:
            raise DataError(f"{path}: {place}: {error}") from error
