"""The search tool of an agent: a client of `POST /retrieve` that tells failure from no results."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from mempo.agents.base import ToolReply
from mempo.prompts import format_passages
from tools.search.result_cache import ResultCache
from tools.search.wire import WireError, parse_results

logger = logging.getLogger(__name__)

# What the model reads where there are no passages. Three different texts: a failed search says nothing about the
# world, an empty one does, and after a blank one the query is to blame.
FAILED_TEXT = "The search failed and returned nothing. This says nothing about the question."
EMPTY_TEXT = "The search found no passage for this query."
BLANK_TEXT = "The query was blank, so nothing was searched."

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504})


class SearchFailure(Exception):
    """One search did not work. `cause` is a short name for counting, `retry` whether another attempt may help."""

    def __init__(self, cause: str, message: str, *, retry: bool = False, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.cause, self.retry, self.wait_s = cause, retry, wait_s


@dataclass(frozen=True)
class SearchSettings:
    """How to search; plain data, so that it can be sent to worker processes.

    Attributes:
        url: address of the server, with or without `/retrieve`.
        topk: passages per query.
        deadline_s: seconds for one query, retries and waits included.
        retries: further attempts after a connection error, 429 or a server error.
        token: bearer token, if the server wants one.
        connections: connections kept open to the server.
        cache_size: results that are kept for rollouts which ask the same.
    """

    url: str
    topk: int = 3
    deadline_s: float = 30.0
    retries: int = 8
    token: str | None = field(default=None, repr=False)  # must not reach logs
    connections: int = 64
    cache_size: int = 4096

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"search.url is {self.url!r}; it must start with http:// or https://")
        if self.topk < 1 or self.deadline_s <= 0 or self.retries < 0 or self.connections < 1:
            raise ValueError(
                "search: topk, deadline_s and connections must be positive, retries not negative"
            )


class SearchClient:
    """A `Tool`: one query in, one observation out; never raises for a failed search.

    One object may be shared by any number of tasks of one event loop; a query that several of them ask is sent once.
    `counts` holds how many queries ended as `ok`, `empty`, `blank` and `failed/<cause>`, and how many of them were
    answered from what another had asked (`cached`).
    """

    def __init__(
        self, url: str, *, topk: int = 3, deadline_s: float = 30.0, retries: int = 8, token: str | None = None
    ) -> None:
        self._configure(SearchSettings(url, topk, deadline_s, retries, token))

    @classmethod
    def from_settings(cls, settings: SearchSettings) -> SearchClient:
        """A client with these settings."""
        client = cls.__new__(cls)
        client._configure(settings)
        return client

    def _configure(self, settings: SearchSettings) -> None:
        self.settings = settings
        self.counts: Counter[str] = Counter()
        self._url = settings.url.rstrip("/").removesuffix("/retrieve") + "/retrieve"
        self._http: httpx.AsyncClient | None = None
        self._cache: ResultCache[list[tuple[str, str]]] = ResultCache(settings.cache_size)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = asyncio.Semaphore(settings.connections)
        self._jitter = random.Random()  # own generator: must not move the run's seeded ones

    async def __call__(self, query: str) -> ToolReply:
        """Searches for `query`."""
        if not query.strip():
            return self._reply("blank", BLANK_TEXT, "blank")
        deadline_s = self.settings.deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                passages, again = await self._results().get(query, self._within_deadline)
        except TimeoutError:
            return self._failed(SearchFailure("timeout", f"no result within {deadline_s:g} s"))
        except SearchFailure as failure:
            return self._failed(failure)
        if again:
            self.counts["cached"] += 1
        if not passages:
            return self._reply("empty", EMPTY_TEXT, "empty")
        return self._reply("ok", format_passages(passages), "ok")

    async def aclose(self) -> None:
        """Closes the connections; the client may be used again afterwards."""
        http, self._http = self._http, None
        if http is not None and self._loop is asyncio.get_running_loop():
            await http.aclose()

    def _reply(self, status: Any, text: str, counted_as: str) -> ToolReply:
        self.counts[counted_as] += 1
        return ToolReply(text=text, status=status)

    def _failed(self, failure: SearchFailure) -> ToolReply:
        name = f"failed/{failure.cause}"
        reply = self._reply("failed", FAILED_TEXT, name)
        count = self.counts[name]
        if count & (count - 1) == 0:  # 1, 2, 4, 8 …: a server that is down must not flood the log
            logger.warning("search failed (%s, %d so far): %s", failure.cause, count, failure)
        return reply

    def _results(self) -> ResultCache[list[tuple[str, str]]]:
        self._connection()  # another event loop begins with an empty cache
        return self._cache

    async def _within_deadline(self, query: str) -> list[tuple[str, str]]:
        async with asyncio.timeout(self.settings.deadline_s):
            return await self._search(query)

    async def _search(self, query: str) -> list[tuple[str, str]]:
        """Tries until it works, retries are used up, or the wait would outlast the deadline."""
        give_up_at = time.monotonic() + self.settings.deadline_s
        for attempt in range(self.settings.retries + 1):
            try:
                return await self._attempt(query)
            except SearchFailure as failure:
                if not failure.retry or attempt == self.settings.retries:
                    raise
                pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt) * self._jitter.uniform(0.5, 1.0)
                pause = max(pause, failure.wait_s or 0.0)
                if time.monotonic() + pause >= give_up_at:
                    raise  # no use in waiting for a deadline that is known to pass
                await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def _attempt(self, query: str) -> list[tuple[str, str]]:
        query = query.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent as JSON
        body = {"queries": [query], "topk": self.settings.topk, "return_scores": True}
        try:
            http = self._connection()
            async with self._free:
                response = await http.post(self._url, json=body)
        except httpx.TransportError as error:
            raise SearchFailure(
                "connection", f"{self._url}: {error or type(error).__name__}", retry=True
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SearchFailure("request", f"{self._url}: {error}") from error
        if response.status_code != 200:
            raise SearchFailure(
                f"status_{response.status_code}",
                f"{self._url}: HTTP {response.status_code}: {response.text[:200]}",
                retry=response.status_code in RETRIED_STATUSES,
                wait_s=retry_after(response),
            )
        try:
            (found,) = parse_results(response.content, queries=1)
        except WireError as error:
            raise SearchFailure("schema", f"{self._url}: {error}") from error
        if isinstance(found, str):
            raise SearchFailure("query", f"{self._url}: {found}")
        return found

    def _connection(self) -> httpx.AsyncClient:
        """The pool of the running event loop; connections cannot be carried from one loop to another."""
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            token = self.settings.token
            size = self.settings.connections
            self._loop = loop
            self._cache = ResultCache(self.settings.cache_size)
            # Queries wait here for a connection: httpx's own queue slows down with the square of its length.
            self._free = asyncio.Semaphore(size)
            self._http = httpx.AsyncClient(
                timeout=None,  # the deadline around the whole call bounds every step of it
                limits=httpx.Limits(max_connections=size, max_keepalive_connections=size),
                headers={"Authorization": f"Bearer {token}"} if token else None,
                trust_env=False,  # a proxy for the outside world must not catch calls to a server of ours
            )
        return self._http


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that a Retry-After header asks for, given as a number or a date; None without a readable header."""
    value = response.headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
