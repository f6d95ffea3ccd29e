"""Raw records of a data set file: one JSON list, or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.data.question import MalformedRecord


class DataError(ValueError):
    """Input or settings from which no data can be made; the message names the file and what to do."""


def read_records(path: str | Path) -> Iterator[tuple[str, dict[str, Any] | MalformedRecord]]:
    """Yields (place, record) for each record; what is not a JSON object comes as the problem instead of a record.

    The place is `line 7` for JSON lines and `record 7` for a list, both from 1.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or is a list that is not JSON.
    """
    path = Path(path)
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


def _checked(record: Any) -> dict[str, Any] | MalformedRecord:
    if isinstance(record, dict):
        return record
    return MalformedRecord("json", f"an object is expected, got {type(record).__name__}")
