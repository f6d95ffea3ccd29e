"""The web as what a search server answers from."""

from __future__ import annotations

from collections.abc import Sequence

from tools.search.batching import Outcome
from tools.search.document import Document
from tools.search.index import Hit
from tools.search.web.searcher import WebSearcher


class WebBackend:
    """Searches and reads the web; nobody knows how many documents it has. See `tools.search.backend.Backend`."""

    documents = None

    def __init__(self, searcher: WebSearcher) -> None:
        self._searcher = searcher
        self.waiting = 0

    async def search(self, queries: list[str], topk: int) -> list[Outcome]:
        self.waiting += len(queries)
        try:
            results = await self._searcher.search(queries, topk)
        finally:
            self.waiting -= len(queries)
        return [
            found if isinstance(found, Exception) else [Hit(document, score) for document, score in found]
            for found in results
        ]

    async def pages(self, names: Sequence[str]) -> list[list[Document]]:
        return [[page] if page else [] for page in await self._searcher.access(list(names))]

    async def aclose(self) -> None:
        await self._searcher.aclose()
