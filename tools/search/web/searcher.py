"""Web search as the search server needs it: results for queries, pages for addresses, both through the cache."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

from pydantic import TypeAdapter

from tools.search.client import SearchFailure
from tools.search.document import Document
from tools.search.web.cache import CacheKey, WebCache
from tools.search.web.document import clean
from tools.search.web.pages import PageReader, PageSettings
from tools.search.web.provider import ProviderSettings, SerperProvider

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RESULTS = TypeAdapter(list[Document])
_PAGE = TypeAdapter(Document)


class WebSearcher:
    """Searches the web and reads pages. One object belongs to one event loop, where any number of tasks share it.

    `counts` holds how many requests ended as `search/ok`, `search/empty`, `search/failed/<cause>`, `access/ok` and
    `access/failed/<cause>`.
    """

    def __init__(
        self,
        cache: WebCache,
        provider: ProviderSettings = ProviderSettings(),
        pages: PageSettings = PageSettings(),
    ) -> None:
        """A replaying cache needs no key: nothing is sent then.

        Raises:
            ServerError: the key is missing.
        """
        self.counts: Counter[str] = Counter()
        self._cache = cache
        self._base_url = provider.base_url.rstrip("/")
        self._provider = None if cache.mode == "replay" else SerperProvider(provider)
        self._reader = PageReader(pages)

    async def search(self, queries: list[str], topk: int) -> list[list[tuple[Document, float]] | Exception]:
        """Results of every query with their scores, best first.

        Returns:
            One list per query, of at most `topk` pairs; the score is 1/rank, as the API tells an order only. The list
            is empty if nothing was found, or the query is blank. A query that failed has its exception in its place, a SearchFailure as a rule.

        Raises:
            ValueError: `topk` below 1.
        """
        if topk < 1:
            raise ValueError(f"topk is {topk}; at least 1 is expected")
        return list(await asyncio.gather(*(self._scored(clean(query), topk) for query in queries)))

    async def access(self, urls: list[str]) -> list[Document | None]:
        """The page at every address; None where it cannot be read, and `counts` and the log say why."""
        return list(await asyncio.gather(*(self._access(clean(url)) for url in urls)))

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._provider is not None:
            await self._provider.aclose()

    async def _scored(self, query: str, topk: int) -> list[tuple[Document, float]] | Exception:
        try:
            found = await self._search(query, topk)
        except Exception as failure:  # whatever it is, the other queries are answered
            return failure
        return [(document, 1.0 / rank) for rank, document in enumerate(found, 1)]

    async def _search(self, query: str, topk: int) -> list[Document]:
        if not query.strip():
            return []

        async def fetch() -> list[Document]:
            assert self._provider is not None  # a replaying cache does not fetch
            return await self._provider.search(query, topk)

        key = CacheKey("search", self._base_url, {"q": query, "num": topk})
        found = await self._counted("search", self._cache.answer(key, _RESULTS, fetch))
        self.counts["search/ok" if found else "search/empty"] += 1
        return found

    async def _access(self, url: str) -> Document | None:
        key = CacheKey("page", url, {"max_chars": self._reader.settings.max_chars})
        try:
            page = await self._counted(
                "access", self._cache.answer(key, _PAGE, lambda: self._reader.read(url))
            )
        except SearchFailure:
            return None
        except Exception:
            logger.exception("a page could not be read: %s", url[:200])
            self.counts["access/failed/error"] += 1
            return None
        self.counts["access/ok"] += 1
        return page

    async def _counted(self, name: str, answer: Coroutine[Any, Any, T]) -> T:
        """Awaits the answer; a failure is counted and logged on its way."""
        try:
            return await answer
        except SearchFailure as failure:
            name = f"{name}/failed/{failure.cause}"
            self.counts[name] += 1
            count = self.counts[name]
            if count & (count - 1) == 0:  # 1, 2, 4, 8 …: an API that is down must not flood the log
                logger.warning("%s (%d so far): %s", name, count, failure)
            raise
