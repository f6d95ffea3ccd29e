"""Documents on disk, read through a memory map: processes that serve the same index share one copy."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np

from tools.search.document import Document

RECORDS = "documents.jsonl"
OFFSETS = "documents.offsets.npy"


def write_documents(documents: Iterable[Document], folder: Path) -> int:
    """Writes the documents in their order; returns how many there are."""
    offsets = [0]
    with (folder / RECORDS).open("wb") as records:
        for document in documents:
            record = {"id": document.id, "title": document.title, "text": document.text}
            if document.url is not None:
                record["url"] = document.url
            line = json.dumps(record).encode() + b"\n"  # ASCII: lone surrogates survive as escapes
            records.write(line)
            offsets.append(offsets[-1] + len(line))
    np.save(folder / OFFSETS, np.array(offsets, dtype=np.int64))
    return len(offsets) - 1


class DocumentStore(Sequence[Document]):
    """What `write_documents` wrote; any number of threads may read it."""

    def __init__(self, folder: Path) -> None:
        self._offsets = np.asarray(np.load(folder / OFFSETS, mmap_mode="r"))
        with (folder / RECORDS).open("rb") as records:
            self._records = mmap.mmap(records.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, position: int) -> Document: ...
    @overload
    def __getitem__(self, position: slice) -> list[Document]: ...
    def __getitem__(self, position: int | slice) -> Document | list[Document]:
        if isinstance(position, slice):
            return [self[index] for index in range(*position.indices(len(self)))]
        if not -len(self) <= position < len(self):
            raise IndexError(f"document {position} of {len(self)}")
        start, end = map(int, self._offsets[position % len(self) :][:2])
        return Document(**json.loads(self._records[start:end]))

    def __iter__(self) -> Iterator[Document]:
        return (self[position] for position in range(len(self)))
