"""What a server answers from: an index on this machine, or the web."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from tools.search.batching import Batcher, Outcome
from tools.search.document import Document
from tools.search.index import Index
from tools.search.settings import ServerSettings


class Backend(Protocol):
    """Answers searches and gives pages."""

    @property
    def documents(self) -> int | None:
        """Passages that can be found; None if nobody knows."""
        ...

    @property
    def waiting(self) -> int:
        """Queries at work or waiting."""
        ...

    async def search(self, queries: list[str], topk: int) -> list[Outcome]:
        """Hits of every query, best first; in the place of one that cannot be searched its exception. Raises QueueFull."""
        ...

    async def pages(self, names: Sequence[str]) -> list[list[Document]]:
        """The passages of each page, by address or title; none if there is no such page."""
        ...

    async def aclose(self) -> None:
        """Lets go of threads and connections."""
        ...


class IndexBackend:
    """An index, searched in threads."""

    def __init__(self, index: Index, settings: ServerSettings) -> None:
        self._index = index
        self._batcher = Batcher(
            index.search_all,
            threads=settings.threads,
            max_batch=settings.max_batch,
            max_waiting=settings.max_waiting,
        )

    @property
    def documents(self) -> int:
        return len(self._index)

    @property
    def waiting(self) -> int:
        return self._batcher.waiting

    async def search(self, queries: list[str], topk: int) -> list[Outcome]:
        return await self._batcher.search(queries, topk)

    async def pages(self, names: Sequence[str]) -> list[list[Document]]:
        # In a thread: a page may be a whole book, and the event loop serves the others.
        return await asyncio.to_thread(lambda: [self._index.page(name) for name in names])

    async def aclose(self) -> None:
        self._batcher.close()
