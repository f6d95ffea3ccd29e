"""A corpus of passages as JSON lines: `{id, contents}` (the wiki-18 layout) or `{id, title, text}`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.search.wire import join_contents, split_contents

SHOWN_PROBLEMS = 10


class CorpusError(ValueError):
    """A corpus cannot be used; the message names the file, the lines and what is wrong with them."""


@dataclass(frozen=True)
class Document:
    """One passage. `contents` is how search servers send it: the quoted title, a newline, the text."""

    id: str
    title: str
    text: str

    @property
    def contents(self) -> str:
        return join_contents(self.title, self.text)


def parse_document(line: str) -> Document:
    """One corpus line as a document.

    Raises:
        ValueError: not a JSON object, a field missing or of the wrong type, or nothing in it to index.
    """
    try:
        record: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from error
    if not isinstance(record, dict):
        raise ValueError(f"a JSON object is expected, got {type(record).__name__}")
    name = record.get("id")
    if isinstance(name, bool) or not isinstance(name, str | int) or not str(name).strip():
        raise ValueError("field id: a string or an integer is expected")
    if "contents" in record:
        title, text = split_contents(_string(record, "contents"))
    else:
        title, text = " ".join(_string(record, "title").split()), _string(record, "text")
    if not title.strip() and not text.strip():
        raise ValueError("title and text are both blank")
    return Document(str(name), title, text)


def _string(record: dict[str, Any], field: str) -> str:
    if field not in record:
        raise ValueError(f"field {field} is missing; write {{id, contents}} or {{id, title, text}}")
    value = record[field]
    if not isinstance(value, str):
        raise ValueError(f"field {field}: a string is expected, got {type(value).__name__}")
    return value


def parse_corpus(lines: Iterable[str], name: str = "corpus") -> list[Document]:
    """Reads all lines; blank lines are allowed.

    Raises:
        CorpusError: any line is malformed or repeats an id (all of them are counted, the first few shown), or there
            is no document. A corpus with holes would give wrong search results, so none is served in part.
    """
    documents: list[Document] = []
    first_line: dict[str, int] = {}
    problems: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = parse_document(line)
            if document.id in first_line:
                raise ValueError(
                    f"id {document.id!r} was used in line {first_line[document.id]}; ids must be unique"
                )
        except ValueError as error:
            problems.append(f"line {number}: {error}")
            continue
        first_line[document.id] = number
        documents.append(document)
    if problems:
        shown = "\n  ".join(problems[:SHOWN_PROBLEMS])
        rest = len(problems) - SHOWN_PROBLEMS
        raise CorpusError(
            f"{name}: {len(problems)} malformed line(s); mend or remove them:\n  {shown}"
            + (f"\n  and {rest} more" if rest > 0 else "")
        )
    if not documents:
        raise CorpusError(f"{name}: no document in it; one JSON object per line is expected")
    return documents


def read_corpus(path: str | Path) -> list[Document]:
    """Reads a corpus file, gzip-compressed if its name ends in `.gz`. Raises CorpusError, also for a missing file."""
    path = Path(path)
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="\n") as lines:
                return parse_corpus(lines, str(path))
        with path.open(encoding="utf-8-sig", newline="\n") as lines:
            return parse_corpus(lines, str(path))
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}: not UTF-8 (byte {error.start}); convert it first") from error
