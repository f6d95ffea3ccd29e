"""Records of a corpus file, whatever it is: its kind is told by its first bytes, not by its name."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tools.search.layouts import EXPECTED, FIELDS, TEXTS

# Number of a record, and the record; in its place a ValueError that says why it cannot be read.
Entry = tuple[int, Any]

_PARQUET = b"PAR1"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_STREAMS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_HEAD = 512  # bytes that tell what a file is
_TAR = slice(257, 262)  # where a tar archive says `ustar`
_SHOWN_CHARS = 40
_ROWS = 1_000  # of a parquet file at a time


class CorpusError(ValueError):
    """A corpus cannot be used; the message names the file, the lines and what is wrong with them."""


@dataclass(frozen=True)
class Records:
    """Attributes:
    unit: what numbers count: line, entry (of a JSON list) or row.
    read: bytes of the file that were read so far, about.
    """

    unit: str
    entries: Iterator[Entry]
    read: Callable[[], int]


@contextmanager
def open_records(path: Path) -> Iterator[Records]:
    """The records of a corpus file.

    Raises:
        CorpusError: at once or from `entries`: the file is missing, cannot be read, is not UTF-8, or of no known kind.
    """
    with ExitStack() as stack:
        with _reading(path):
            raw = stack.enter_context(path.open("rb"))
            if raw.peek(_HEAD).startswith(_PARQUET):
                records = _parquet(raw, path.stat().st_size)
            else:
                records = _text(raw, stack)
        yield Records(records.unit, _guarded(path, records.entries), records.read)


def is_packed(path: Path) -> bool:
    """Whether the file is smaller than its text."""
    with _reading(path), path.open("rb") as raw:
        head = raw.read(_HEAD)
    return head.startswith((_PARQUET, _ZSTANDARD, *_ZIP, *_STREAMS))


def json_lines(lines: Iterable[str]) -> Iterator[Entry]:
    """One record per line; blank lines are allowed."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except json.JSONDecodeError as error:
            shown = repr(line.strip()[:_SHOWN_CHARS])
            yield number, ValueError(f"not JSON ({error.msg} at column {error.colno}): {shown}")
        except (ValueError, RecursionError) as error:
            yield number, ValueError(f"not JSON ({error})")


def tsv_rows(lines: Iterable[str]) -> Iterator[Entry]:
    """One record per line, its fields named by the first line; a quoted field has its quotes doubled inside.

    A row is one line, also where a quote stays open: rows that follow must not vanish into a field.

    Raises:
        CorpusError: the first line names no column that we know.
    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    columns = [name.strip().lower() for name in _cells(next(numbered)[1])]
    if not set(TEXTS) & set(columns):
        raise CorpusError(
            f"tab-separated, but its first line names no column text or contents ({', '.join(columns)[:200]}); "
            f"write the names of the columns there. Expected: {EXPECTED}"
        )
    for number, line in numbered:
        cells = _cells(line)
        if len(cells) == len(columns):
            yield number, dict(zip(columns, cells, strict=True))
        else:
            yield number, ValueError(f"{len(cells)} columns, the first line names {len(columns)}")


def _cells(line: str) -> list[str]:
    cells = line.rstrip("\r\n").split("\t")
    return [
        cell[1:-1].replace('""', '"')
        if len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in cell[1:-1].replace('""', "")
        else cell
        for cell in cells
    ]


def _text(raw: io.BufferedReader, stack: ExitStack) -> Records:
    """Lines or a list, unpacked if need be."""
    stream, head = raw, raw.peek(_HEAD)
    while (opener := _opener(head)) is not None:
        stream = io.BufferedReader(stack.enter_context(opener(stream)))
        head = stream.peek(_HEAD)
    if head.startswith(_PARQUET) or head[_TAR] == b"ustar":
        kind = "a parquet file that is packed" if head.startswith(_PARQUET) else "a tar archive"
        raise CorpusError(f"{kind}; unpack it and give the corpus file in it")
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="\n")
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"["):
        return Records("entry", _list(text), raw.tell)
    if b"\t" in start.partition(b"\n")[0] and not start.startswith(b"{"):
        return Records("line", tsv_rows(text), raw.tell)
    return Records("line", json_lines(text), raw.tell)


def _opener(head: bytes) -> Callable[[Any], Any] | None:
    """What unpacks a stream that begins so; None for one that is not packed."""
    if head.startswith(_ZIP):
        return _only_member
    if head.startswith(_ZSTANDARD):
        import pyarrow as pa

        return lambda stream: pa.CompressedInputStream(stream, "zstd")
    return next((opener for magic, opener in _STREAMS.items() if head.startswith(magic)), None)


def _only_member(stream: IO[bytes]) -> IO[bytes]:
    archive = zipfile.ZipFile(stream)
    names = [name for name in archive.namelist() if not name.endswith("/") and "__MACOSX/" not in name]
    if len(names) != 1:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise CorpusError(f"a zip archive of {len(names)} files ({shown}); unpack it and give the corpus")
    return archive.open(names[0])


def _list(text: io.TextIOWrapper) -> Iterator[Entry]:
    try:
        entries = json.load(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise CorpusError(f"begins as a JSON list and is none ({error}). Expected: {EXPECTED}") from error
    yield from enumerate(entries, 1)


def _parquet(raw: IO[bytes], size: int) -> Records:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(raw)
    names = table.schema_arrow.names
    if not set(TEXTS) & set(names):
        raise CorpusError(f"no column text or contents in {', '.join(names)}. Expected: {EXPECTED}")
    rows, done = table.metadata.num_rows, 0

    def entries() -> Iterator[Entry]:
        nonlocal done
        for batch in table.iter_batches(_ROWS, columns=[name for name in names if name in FIELDS]):
            yield from enumerate(batch.to_pylist(), done + 1)
            done += batch.num_rows

    return Records("row", entries(), lambda: size * done // max(1, rows))


def _guarded(path: Path, entries: Iterator[Entry]) -> Iterator[Entry]:
    with _reading(path):
        yield from entries


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What goes wrong with the file becomes a CorpusError that names it."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path}: not UTF-8 (byte {error.start}); convert it first. Expected: {EXPECTED}"
        ) from error
    except CorpusError as error:
        raise CorpusError(f"{path}: {error}") from error.__cause__
    except IsADirectoryError as error:
        index = (
            "an index: give it as --index" if (path / "manifest.json").is_file() else "a corpus is one file"
        )
        raise CorpusError(f"{path}: a folder; {index}") from error
    except (
        OSError,
        EOFError,
        ValueError,
        RuntimeError,
        zlib.error,
        lzma.LZMAError,
        zipfile.BadZipFile,
    ) as error:
        raise CorpusError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
