"""A parquet file of questions held against the schema, before a run reads it: every fault with its row, field and remedy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mempo.question_rows import RowFaults
from tools.data.schema import AGENT_NAME, COLUMNS

BATCH = 16384
REMEDY = "write the file with `mempo data` or `mempo world`, or as docs/data.md says"


@dataclass(frozen=True)
class FileCheck:
    """What was found in one file.

    Attributes:
        problems: one line each; empty for a file that a run can use.
        rows: how many there are; None if the file cannot be read.
        questions: id → question of its rows.
    """

    problems: list[str]
    rows: int | None = None
    questions: dict[str, str] = field(default_factory=dict)


def check_file(path: Path, *, documents: bool = False) -> FileCheck:
    """Reads all rows, but no documents: a hundred thousand questions take about two seconds.

    Args:
        documents: every row needs one.
    """
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        return FileCheck([f"{path}: not a readable parquet file: {error}"])
    with file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        missing = [name for name in COLUMNS.names if name not in schema.names]
        if missing:
            return FileCheck([f"{path}: column {', '.join(missing)} is missing: {REMEDY}"], rows)
        if not rows:
            return FileCheck([f"{path} has no rows: give at least one question"], rows)
        problems = _prompts(path, schema) + (_documents(path, file) if documents else [])
        faults = RowFaults(path)
        start = 0
        for batch in file.iter_batches(BATCH, columns=_columns(schema)):
            for place, row in enumerate(batch.to_pylist(), start):
                faults.check(place, row)
                if row["agent_name"] != AGENT_NAME:
                    # verl would start the agent loop of that name, or none.
                    what = f"agent_name is {row['agent_name']!r}: write {AGENT_NAME!r}, which takes agent.name of the config"
                    faults.add(place, faults.name(row), what)
            start += len(batch)
    return FileCheck(problems + faults.lines, rows, faults.questions)


def _columns(schema: pa.Schema) -> list[str]:
    """What the rules concern. Documents are left where they are: they may be gigabytes."""
    task = schema.field("task").type
    fields = (
        [f"task.{each.name}" for each in task if each.name != "document"]
        if pa.types.is_struct(task)
        else ["task"]
    )
    return [*fields, "reference", "agent_name"]


def _prompts(path: Path, schema: pa.Schema) -> list[str]:
    kind = schema.field("prompt").type
    message = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    if (
        message is not None
        and pa.types.is_struct(message)
        and {"role", "content"} <= {each.name for each in message}
    ):
        return []
    return [f"{path}: column prompt is {kind}: write a list of messages, each with role and content"]


def _documents(path: Path, file: pq.ParquetFile) -> list[str]:
    """Rows without a document, by the statistics of the row groups; only groups with such a row are read."""
    task = file.schema_arrow.field("task").type
    kind = (
        task.field("document").type
        if pa.types.is_struct(task) and task.get_field_index("document") >= 0
        else None
    )
    remedy = (
        "the agent reads documents: make the files with `mempo data long-context`, or choose task=reading"
    )
    if kind is None:
        return [f"{path}: its rows have no task.document: {remedy}"]
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return [f"{path}: task.document is {kind}: write the documents as texts"]
    place = next(n for n in range(file.metadata.num_columns) if file.schema.column(n).path == "task.document")
    empty: list[int] = []
    start = 0
    for group in range(file.num_row_groups):
        meta = file.metadata.row_group(group)
        if _may_lack(meta.column(place).statistics):
            column = file.read_row_group(group, columns=["task.document"])["task"].to_pylist()
            empty += [
                start + n for n, row in enumerate(column) if not ((row or {}).get("document") or "").strip()
            ]
        start += meta.num_rows
    if not empty:
        return []
    shown = ", ".join(map(str, empty[:5])) + (", …" if len(empty) > 5 else "")
    return [f"{path}: {len(empty)} rows have no task.document (row {shown}): {remedy}"]


def _may_lack(statistics: Any) -> bool:
    if statistics is None or not statistics.has_null_count or not statistics.has_min_max:
        return True
    return bool(statistics.null_count) or not str(statistics.min).strip()
