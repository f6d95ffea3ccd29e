"""A corpus of passages as JSON lines: `{id, contents}` (the wiki-18 layout) or `{id, title, text}`."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

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
    url: str | None = None

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
    url = record.get("url")
    if url is not None and not isinstance(url, str):
        raise ValueError(f"field url: a string is expected, got {type(url).__name__}")
    return Document(str(name), title, text, url)


def _string(record: dict[str, Any], field: str) -> str:
    if field not in record:
        raise ValueError(f"field {field} is missing; write {{id, contents}} or {{id, title, text}}")
    value = record[field]
    if not isinstance(value, str):
        raise ValueError(f"field {field}: a string is expected, got {type(value).__name__}")
    return value


class Corpus:
    """Reads documents line by line; blank lines are allowed.

    Malformed lines are left out, counted in `malformed`, and the first few kept in `problems`, by number. What was read
    stands there once the iteration is over.

    Args:
        lines: JSON lines.
        name: what messages call the corpus.
        strict: raise at the end if any line was malformed.
    """

    def __init__(self, lines: Iterable[str], name: str = "corpus", strict: bool = True) -> None:
        self._lines, self._name, self._strict = lines, name, strict
        self.malformed = 0
        self.documents = 0
        self.problems: list[str] = []

    def __iter__(self) -> Iterator[Document]:
        """Documents in their order.

        Raises:
            CorpusError: an id is repeated, there is no document, or, if strict, a line is malformed (all of them are
                counted first). A corpus with holes gives wrong search results, so a strict one is not used in part.
        """
        first_line: dict[str, int] = {}
        repeated = 0
        for number, line in enumerate(self._lines, 1):
            if not line.strip():
                continue
            try:
                document = parse_document(line)
            except ValueError as error:
                self.malformed += 1
                self._note(number, str(error))
                continue
            if document.id in first_line:
                repeated += 1
                used = first_line[document.id]
                self._note(number, f"id {document.id!r} was used in line {used}; ids must be unique")
                continue
            first_line[document.id] = number
            self.documents += 1
            yield document
        if repeated or (self.malformed and self._strict):
            raise CorpusError(
                f"{self._name}: {self.malformed + repeated} malformed line(s); mend or remove them:\n{self.report()}"
            )
        if not self.documents:
            raise CorpusError(f"{self._name}: no document in it; one JSON object per line is expected")

    def report(self) -> str:
        """The problems, one per line."""
        return "\n".join(f"  {problem}" for problem in self.problems)

    def _note(self, number: int, problem: str) -> None:
        if len(self.problems) < SHOWN_PROBLEMS:
            self.problems.append(f"line {number}: {problem}")
        elif len(self.problems) == SHOWN_PROBLEMS:
            self.problems.append("and more")


@contextmanager
def corpus_lines(path: Path) -> Iterator[tuple[Iterator[str], Callable[[], int]]]:
    """The lines of a corpus file, gzip-compressed if its name ends in `.gz`, and how many of its bytes were read so far.

    Raises:
        CorpusError: the file is missing, cannot be read, or is not UTF-8.
    """
    try:
        with path.open("rb") as raw:
            plain = gzip.open(raw) if path.suffix == ".gz" else raw  # noqa: SIM115 (closed with `raw`)
            yield io.TextIOWrapper(cast("IO[bytes]", plain), encoding="utf-8-sig", newline="\n"), raw.tell
    except (OSError, EOFError) as error:
        raise CorpusError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}: not UTF-8 (byte {error.start}); convert it first") from error


def read_corpus(path: str | Path) -> list[Document]:
    """All documents of a corpus file. Raises CorpusError, also for a malformed line or a missing file."""
    with corpus_lines(Path(path)) as (lines, _):
        return list(Corpus(lines, str(path)))
