"""Results of queries that several rollouts ask: the last ones are kept, and one that is on its way is waited for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ResultCache(Generic[Value]):
    """For one event loop. Failures are not kept.

    Args:
        size: results that are kept; the ones that were asked for longest ago go first.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[str, Value] = OrderedDict()
        self._on_its_way: dict[str, asyncio.Task[Value]] = {}

    async def get(self, key: str, fetch: Callable[[str], Awaitable[Value]]) -> tuple[Value, bool]:
        """The value, and whether somebody had asked for it before. Raises what `fetch` raises.

        A caller who stops waiting stops nobody else. Those who ask together share a failure, except one of time, which is
        the first caller's: the others then fetch for themselves.
        """
        while key not in self._kept:
            earlier = self._on_its_way.get(key)
            if earlier is None or earlier.done():
                return await asyncio.shield(self._fetch(key, fetch)), False
            with suppress(TimeoutError):
                return await asyncio.shield(earlier), True
        self._kept.move_to_end(key)
        return self._kept[key], True

    def _fetch(self, key: str, fetch: Callable[[str], Awaitable[Value]]) -> asyncio.Task[Value]:
        async def fetching() -> Value:
            value = await fetch(key)
            self._kept[key] = value
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
            return value

        def landed(task: asyncio.Task[Value]) -> None:
            if self._on_its_way.get(key) is task:
                del self._on_its_way[key]
            if not task.cancelled():
                task.exception()  # seen, even if every caller has gone

        task = asyncio.ensure_future(fetching())
        self._on_its_way[key] = task
        task.add_done_callback(landed)
        return task
