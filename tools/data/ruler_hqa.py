"""The layout of RULER-HQA, MemAgent's evaluation sets: one question and its whole document per line.

Fields: `index`, `id`, `input` (the question), `context` (the document), `answers` (aliases), `num_docs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mempo.task import Reference, Task
from tools.data.data_folder import replaced
from tools.data.manifest import write_manifest
from tools.data.question import MalformedRecord, string, usable_answers
from tools.data.records import DataError, read_records
from tools.data.schema import QuestionRow, write_rows


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


def evaluation_name(path: Path) -> str:
    """`ruler_hqa_N` for a file whose documents are of N paragraphs each; otherwise the file's own name."""
    sizes = {str(record.get("num_docs")) for _, record in read_records(path) if isinstance(record, dict)}
    return f"ruler_hqa_{size}" if len(sizes) == 1 and (size := sizes.pop()).isdigit() else path.stem


def read_ruler_hqa(path: Path, source: str) -> Iterator[QuestionRow]:
    """The questions of such a file (JSON lines, or a list) as rows of a validation split.

    Args:
        source: the rows' `data_source`.

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
                data_source=source,
                split="validation",
                index=number,
            )
        except MalformedRecord as error:
            raise DataError(f"{path}: {place}: {error}") from error


def convert_ruler_hqa(path: Path, out: Path, name: str | None = None) -> dict[str, Any]:
    """Writes such a file as `validation.parquet` and the manifest; returns the latter.

    Args:
        name: the rows' `data_source`; None takes `evaluation_name`.

    Raises:
        DataError, SchemaError: a record lacks a field, two have one id, or there is none.
    """
    source = name or evaluation_name(path)
    with replaced(out, [path]) as folder:
        output = folder / "validation.parquet"
        count = write_rows(output, read_ruler_hqa(path, source))
        facts = {
            "dataset": "ruler_hqa",
            "settings": {"name": source},
            "counts": {"rows": {"validation": count}},
        }
        return write_manifest(folder, [path], [output], facts)
