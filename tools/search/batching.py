"""Searching together what waits at the same time: an encoder wants batches, and a thread switch per query is dear."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tools.search.index import Hit

SearchAll = Callable[[Sequence[str], int], list[list[Hit]]]


class QueueFull(Exception):
    """Too many queries are waiting already."""


@dataclass
class _Job:
    queries: list[str]
    topk: int
    results: asyncio.Future[list[list[Hit]]]


class Batcher:
    """Runs a blocking search in threads, several requests in one call.

    Args:
        search: one call of the index; its results for a smaller topk are the first of those for a larger one.
        threads: calls at the same time.
        max_batch: queries of one call; a larger request makes a call of its own.
        max_waiting: queries that may wait; more are refused.
    """

    def __init__(self, search: SearchAll, *, threads: int, max_batch: int, max_waiting: int) -> None:
        self._search, self._threads = search, threads
        self._max_batch, self._max_waiting = max_batch, max_waiting
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="search")
        self._jobs: deque[_Job] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = 0
        self.waiting = 0

    async def search(self, queries: list[str], topk: int) -> list[list[Hit]]:
        """Hits of every query. Raises QueueFull."""
        if self.waiting and self.waiting + len(queries) > self._max_waiting:
            raise QueueFull(f"{self.waiting} queries are waiting already")
        job = _Job(queries, topk, asyncio.get_running_loop().create_future())
        self.waiting += len(queries)
        self._jobs.append(job)
        if self._working < self._threads:
            self._working += 1
            task = asyncio.create_task(self._work())
            self._tasks.add(task)  # the event loop itself would forget it
            task.add_done_callback(self._tasks.discard)
        return await job.results

    def close(self) -> None:
        """Takes no more work; calls that run are finished."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        try:
            while self._jobs:
                jobs = self._next_batch()
                try:
                    await self._run(jobs)
                finally:
                    self.waiting -= sum(len(job.queries) for job in jobs)
        finally:
            # At once with the last look at the jobs: one that came later would wait for a worker that is gone.
            self._working -= 1

    def _next_batch(self) -> list[_Job]:
        jobs = [self._jobs.popleft()]
        size = len(jobs[0].queries)
        while self._jobs and size + len(self._jobs[0].queries) <= self._max_batch:
            jobs.append(self._jobs.popleft())
            size += len(jobs[-1].queries)
        return jobs

    async def _run(self, jobs: list[_Job]) -> None:
        queries = [query for job in jobs for query in job.queries]
        topk = max(job.topk for job in jobs)
        try:
            results = await asyncio.get_running_loop().run_in_executor(
                self._pool, self._search, queries, topk
            )
        except Exception as error:
            if len(jobs) == 1:
                _settle(jobs[0], error)
            else:  # only the request that cannot be answered shall fail
                for job in jobs:
                    await self._run([job])
            return
        found = iter(results)
        for job in jobs:
            _settle(job, [next(found)[: job.topk] for _ in job.queries])


def _settle(job: _Job, outcome: list[list[Hit]] | Exception) -> None:
    if job.results.done():  # the client has gone
        return
    if isinstance(outcome, Exception):
        job.results.set_exception(outcome)
    else:
        job.results.set_result(outcome)
