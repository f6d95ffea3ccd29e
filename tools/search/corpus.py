"""A corpus of passages: its documents, and what is wrong with the records that are none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tools.search.document import Document
from tools.search.layouts import EXPECTED, missing, to_document
from tools.search.records import CorpusError, Entry, open_records

SHOWN_PROBLEMS = 10


class Corpus:
    """Reads documents, one per record.

    Malformed records are left out, counted in `malformed`, and the first few kept in `problems`, by number. What was read
    stands there once the iteration is over. Where the first document has no id, none may have one: the numbers of the
    records are their ids.

    Args:
        entries: records with their numbers, see `tools.search.records`.
        name: what messages call the corpus.
        strict: raise at the end if any record was malformed.
        unit: what messages call a record.
    """

    def __init__(
        self, entries: Iterable[Entry], name: str = "corpus", strict: bool = True, unit: str = "line"
    ) -> None:
        self._entries, self._name, self._strict, self._unit = entries, name, strict, unit
        self._named: bool | None = None
        self.malformed = 0
        self.documents = 0
        self.problems: list[str] = []

    def __iter__(self) -> Iterator[Document]:
        """Documents in their order.

        Raises:
            CorpusError: an id is repeated, there is no document, or, if strict, a record is malformed (all of them are
                counted first). A corpus with holes gives wrong search results, so a strict one is not used in part.
        """
        first_place: dict[str, int] = {}
        repeated = 0
        for number, record in self._entries:
            try:
                document = self._document(number, record)
            except ValueError as error:
                self.malformed += 1
                self._note(number, str(error))
                continue
            if document.id in first_place:
                repeated += 1
                used = f"{self._unit} {first_place[document.id]}"
                self._note(number, f"id {document.id!r} was used in {used}; ids must be unique")
                continue
            first_place[document.id] = number
            self.documents += 1
            yield document
        if not self.documents:
            raise CorpusError(f"{self._name}: no document in it{self._why()}\n  expected: {EXPECTED}")
        if repeated or (self.malformed and self._strict):
            raise CorpusError(
                f"{self._name}: {self.malformed + repeated} malformed {self._unit}(s); mend or remove them:\n"
                f"{self.report()}"
            )

    def report(self) -> str:
        """The problems, one per line."""
        return "\n".join(f"  {problem}" for problem in self.problems)

    def _why(self) -> str:
        if not self.malformed:
            return "; it is empty"
        return f", {self.malformed} malformed {self._unit}(s):\n{self.report()}"

    def _document(self, number: int, record: object) -> Document:
        """Raises ValueError for a malformed record."""
        if isinstance(record, ValueError):
            raise record
        document = to_document(record)
        named = bool(document.id)
        if self._named is None:
            self._named = named
        if named != self._named:
            assert isinstance(record, dict)
            raise ValueError("an id, and earlier ones have none" if named else missing("id", record))
        return document if named else replace(document, id=str(number))

    def _note(self, number: int, problem: str) -> None:
        if len(self.problems) < SHOWN_PROBLEMS:
            self.problems.append(f"{self._unit} {number}: {problem}")
        elif len(self.problems) == SHOWN_PROBLEMS:
            self.problems.append("and more")


def read_corpus(path: str | Path) -> list[Document]:
    """All documents of a corpus file. Raises CorpusError, also for a malformed record or a missing file."""
    with open_records(Path(path)) as records:
        return list(Corpus(records.entries, str(path), unit=records.unit))
