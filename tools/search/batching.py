"""Searching together what waits at the same time: an encoder wants batches, and a thread switch per query is dear."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tools.search.index import Hit

SearchAll = Callable[[Sequence[str], int], list[list[Hit]]]
Outcome = list[Hit] | Exception  # of one query: its hits, or why it has none


class QueueFull(Exception):
    """Too many queries are waiting already."""


@dataclass
class _Request:
    """Queries of one client; `given` of them are with a worker, or answered in `outcomes`."""

    queries: list[str]
    topk: int
    done: asyncio.Future[None]
    outcomes: list[Outcome | None] = field(default_factory=list)
    given: int = 0
    answered: int = 0

    def part(self, size: int) -> _Part:
        """The next queries, at most `size`."""
        start, self.given = self.given, min(self.given + size, len(self.queries))
        return _Part(self, start, self.given)


@dataclass(frozen=True)
class _Part:
    """Queries of a request that are searched in one call."""

    request: _Request
    start: int
    end: int

    @property
    def queries(self) -> list[str]:
        return self.request.queries[self.start : self.end]

    def settle(self, outcomes: Sequence[Outcome]) -> None:
        request = self.request
        request.outcomes[self.start : self.end] = [
            outcome[: request.topk] if isinstance(outcome, list) else outcome for outcome in outcomes
        ]
        request.answered += self.end - self.start
        if request.answered == len(request.queries) and not request.done.done():  # done: the client has gone
            request.done.set_result(None)


class Batcher:
    """Runs a blocking search in threads: several requests in one call, a large request in several calls.

    Args:
        search: one call of the index; its results for a smaller topk are the first of those for a larger one.
        threads: calls at the same time.
        max_batch: queries of one call. A larger request goes in parts, and lets others in between them.
        max_waiting: queries that may wait; more are refused, except for one request that finds nobody waiting.
    """

    def __init__(self, search: SearchAll, *, threads: int, max_batch: int, max_waiting: int) -> None:
        self._search, self._threads = search, threads
        self._max_batch, self._max_waiting = max_batch, max_waiting
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="search")
        self._requests: deque[_Request] = deque()  # with queries that no worker has yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = 0
        self.waiting = 0

    async def search(self, queries: list[str], topk: int) -> list[Outcome]:
        """Hits of every query, or in their place the exception of one that cannot be searched. Raises QueueFull."""
        if self.waiting and self.waiting + len(queries) > self._max_waiting:
            raise QueueFull(f"{self.waiting} queries are waiting already")
        request = _Request(queries, topk, asyncio.get_running_loop().create_future(), [None] * len(queries))
        self.waiting += len(queries)
        self._requests.append(request)
        if self._working < self._threads:
            self._start_worker()
        await request.done
        return [outcome for outcome in request.outcomes if outcome is not None]

    def close(self) -> None:
        """Takes no more work; calls that run are finished."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start_worker(self) -> None:
        self._working += 1
        task = asyncio.create_task(self._work())
        self._tasks.add(task)  # the event loop itself would forget it
        task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        try:
            while self._requests:
                parts = self._next_batch()
                if self._requests and self._working < self._threads:
                    self._start_worker()  # one large request is work for every thread
                try:
                    await self._run(parts)
                finally:
                    self.waiting -= sum(part.end - part.start for part in parts)
        finally:
            # At once with the last look at the requests: one that came later would wait for a worker that is gone.
            self._working -= 1

    def _next_batch(self) -> list[_Part]:
        parts = [self._next_part()]
        room = self._max_batch - (parts[0].end - parts[0].start)
        while self._requests and len(self._requests[0].queries) - self._requests[0].given <= room:
            parts.append(self._next_part())
            room -= parts[-1].end - parts[-1].start
        return parts

    def _next_part(self) -> _Part:
        request = self._requests.popleft()
        part = request.part(self._max_batch)
        if request.given < len(request.queries):
            self._requests.append(
                request
            )  # its rest comes after the others: nobody waits for a whole large request
        return part

    async def _run(self, parts: Sequence[_Part]) -> None:
        queries = [query for part in parts for query in part.queries]
        topk = max(part.request.topk for part in parts)
        found = iter(await self._outcomes(queries, topk))
        for part in parts:
            part.settle([next(found) for _ in part.queries])

    async def _outcomes(self, queries: list[str], topk: int) -> list[Outcome]:
        """A query that cannot be searched fails alone: a call that fails is repeated in halves."""
        try:
            return list(
                await asyncio.get_running_loop().run_in_executor(self._pool, self._search, queries, topk)
            )
        except Exception as error:
            if len(queries) == 1:
                return [error]
        half = len(queries) // 2
        return await self._outcomes(queries[:half], topk) + await self._outcomes(queries[half:], topk)
