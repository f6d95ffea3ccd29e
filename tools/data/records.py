"""Raw records of a data set file: one JSON list, JSON lines, or the rows of a parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tools.data.question import MalformedRecord


class DataError(ValueError):
    """Input or settings from which no data can be made; the message names the file and what to do."""


def read_records(path: str | Path) -> Iterator[tuple[str, dict[str, Any] | MalformedRecord]]:
    """Yields (place, record) for each record; what is not a JSON object comes as the problem instead of a record.

    The place is `line 7` for JSON lines and `record 7` for a list, both from 1, and `row 7` for parquet, from 0.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or is a list that is not JSON or parquet that is none.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start}); convert it first") from error
    if text.lstrip().startswith("["):
        try:
            records = json.loads(text)
        except ValueError as error:
            raise DataError(f"{path}: starts like a JSON list but is none: {error}") from error
        for number, record in enumerate(records, 1):
            yield f"record {number}", _checked(record)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", _checked(json.loads(line))
            except ValueError as error:
                yield f"line {number}", MalformedRecord("json", str(error))


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read as parquet: {error}") from error
    for number, row in enumerate(rows):
        yield f"row {number}", row


def _checked(record: Any) -> dict[str, Any] | MalformedRecord:
    if isinstance(record, dict):
        return record
    return MalformedRecord("json", f"an object is expected, got {type(record).__name__}")
