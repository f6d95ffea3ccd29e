"""The fields of a corpus record, as other projects name them, as a document."""

from __future__ import annotations

from typing import Any

from tools.search.document import Document
from tools.search.wire import split_contents

IDS = ("id", "_id", "docid")
TEXTS = ("text", "contents")
FIELDS = (*IDS, "title", *TEXTS, "url")
EXPECTED = (
    "{id, title, text} or {id, contents} each (id may be called _id or docid), as JSON lines, a JSON list, TSV with a "
    "first line that names the columns, or parquet; plain, .gz, .bz2, .xz, .zst, or alone in a .zip"
)
_SHOWN_KEYS = 12


def to_document(record: Any) -> Document:
    """A record as a document, its id blank where it has none.

    With a `title`, `contents` is the text; without, it is the wiki-18 layout, whose first line is the title. A title may
    be null.

    Raises:
        ValueError: not an object, a field missing or of the wrong type, or nothing in it to index.
    """
    if not isinstance(record, dict):
        raise ValueError(f"an object with fields is expected, got {_kind(record)}")
    title, text = _title_and_text(record)
    if not title.strip() and not text.strip():
        raise ValueError("title and text are both blank")
    url = record.get("url")
    if not _is_null(url) and not isinstance(url, str):
        raise ValueError(f"field url: a string is expected, got {_kind(url)}")
    return Document(_id(record), title, text, url if isinstance(url, str) and url.strip() else None)


def missing(field: str, record: dict[str, Any]) -> str:
    """What is said of a record without a field."""
    keys = ", ".join(map(str, list(record)[:_SHOWN_KEYS])) or "none"
    return f"field {field} is missing; fields found: {keys}"


def _id(record: dict[str, Any]) -> str:
    named = [name for name in IDS if name in record]
    if not named:
        return ""
    field = next((name for name in named if record[name] is not None), named[0])
    value = record[field]
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ValueError(f"field {field}: a string or an integer is expected, got {_kind(value)}")
    return str(value)


def _title_and_text(record: dict[str, Any]) -> tuple[str, str]:
    if "title" not in record and "contents" in record:
        return _split(_string(record, "contents"))
    title = "" if _is_null(record.get("title")) else " ".join(_string(record, "title").split())
    if not _is_null(record.get("text")):
        return title, _string(record, "text")
    if "contents" in record:
        contents = _string(record, "contents")
        first, rest = split_contents(contents)
        return title, rest if title and " ".join(first.split()) == title and rest.strip() else contents
    if "text" not in record:
        raise ValueError(missing("text (or contents)", record))
    return title, _string(record, "text")


def _split(contents: str) -> tuple[str, str]:
    """Title and text; a single line is a text, unless it is in quotes."""
    title, text = split_contents(contents)
    if not text.strip() and title == contents.strip():
        return "", contents
    return title, text


def _string(record: dict[str, Any], field: str) -> str:
    value = record[field]
    if not isinstance(value, str):
        raise ValueError(f"field {field}: a string is expected, got {_kind(value)}")
    return value


def _is_null(value: Any) -> bool:
    """None, or the NaN that data frames write for it."""
    return value is None or (isinstance(value, float) and value != value)


def _kind(value: Any) -> str:
    return "null" if _is_null(value) else "a blank" if value == "" else type(value).__name__
