"""Raw records of a data set file: one JSON list, JSON lines, or the rows of a parquet file; also gzip-compressed."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mempo.outside_text import load_json
from tools.data.question import MalformedRecord

# A file is told by its first bytes, whatever its name.
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_PACKED = {
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
}


class DataError(ValueError):
    """Input or settings from which no data can be made; the message names the file and what to do."""


def read_records(path: str | Path) -> Iterator[tuple[str, dict[str, Any] | MalformedRecord]]:
    """Yields (place, record) for each record; what is not a JSON object comes as the problem instead of a record.

    The place is `line 7` for JSON lines and `record 7` for a list, both from 1, and `row 7` for parquet, from 0.

    Raises:
        DataError: the file cannot be read or unpacked, is not UTF-8, or is a list that is not JSON or parquet that is none.
    """
    path = Path(path)
    content = _unpacked(path)
    if content.startswith(_PARQUET) or path.suffix == ".parquet":
        yield from _parquet_rows(path, content)
        return
    text = _text(path, content)
    if text.lstrip().startswith("["):
        try:
            records = load_json(text)
        except ValueError as error:
            raise DataError(f"{path}: starts like a JSON list but is none: {error}") from error
        for number, record in enumerate(records, 1):
            yield f"record {number}", _checked(record)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", _checked(load_json(line))
            except ValueError as error:
                yield f"line {number}", MalformedRecord("json", str(error))


def read_text(path: Path) -> str:
    """The text of an input file, unpacked.

    Raises:
        DataError: it cannot be read or unpacked, or is not UTF-8.
    """
    return _text(path, _unpacked(path))


def _unpacked(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: a damaged gzip file: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    packed = next((name for mark, name in _PACKED.items() if content.startswith(mark)), None)
    if packed is not None:
        raise DataError(f"{path}: {packed}; unpack it, or pack it with gzip")
    return content


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start}); convert it first") from error


def _parquet_rows(path: Path, content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        rows = pq.read_table(pa.BufferReader(content)).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read as parquet: {error}") from error
    for number, row in enumerate(rows):
        yield f"row {number}", row


def _checked(record: Any) -> dict[str, Any] | MalformedRecord:
    if isinstance(record, dict):
        return record
    return MalformedRecord("json", f"an object is expected, got {type(record).__name__}")
