"""Requests that wait together are searched together, and none is forgotten."""

import asyncio
import threading

import pytest

from tools.search.batching import Batcher, QueueFull
from tools.search.document import Document
from tools.search.index import Hit


class Searches:
    """An index that waits for `go` and keeps what it was asked; the hits are numbered by rank."""

    def __init__(self):
        self.calls = []
        self.go = threading.Event()

    def __call__(self, queries, topk):
        self.go.wait(5)
        self.calls.append((list(queries), topk))
        return [[Hit(Document(f"{query}{rank}", "", ""), 1.0) for rank in range(topk)] for query in queries]


def batcher(search, **settings):
    return Batcher(search, **{"threads": 1, "max_batch": 4, "max_waiting": 100} | settings)


def ids(results):
    return [[hit.document.id for hit in hits] for hits in results]


async def test_what_waits_is_searched_in_one_call_and_each_gets_its_own():
    search = Searches()
    together = batcher(search)
    first = asyncio.create_task(together.search(["a"], 1))
    await asyncio.sleep(0.05)
    others = [
        asyncio.create_task(together.search([name, name], topk))
        for name, topk in (("b", 1), ("c", 2), ("d", 1))
    ]
    await asyncio.sleep(0.05)
    search.go.set()
    assert ids(await first) == [["a0"]]
    assert [ids(await other) for other in others] == [[["b0"]] * 2, [["c0", "c1"]] * 2, [["d0"]] * 2]
    assert [call[0] for call in search.calls] == [["a"], ["b", "b", "c", "c"], ["d", "d"]]
    assert together.waiting == 0
    together.close()


async def test_a_thousand_requests_one_after_another_and_at_once_are_all_answered():
    search = Searches()
    search.go.set()
    together = batcher(search, threads=2, max_waiting=10_000)
    async with asyncio.timeout(20):
        for number in range(300):
            assert ids(await together.search([str(number)], 1)) == [[f"{number}0"]]
        await asyncio.gather(*(together.search(["x"], 1) for _ in range(700)))
    together.close()


async def test_a_large_request_goes_in_parts_and_lets_others_in_between():
    search = Searches()
    together = batcher(search)
    large = asyncio.create_task(together.search([f"l{n}." for n in range(10)], 1))
    await asyncio.sleep(0.05)
    small = asyncio.create_task(together.search(["s"], 1))
    await asyncio.sleep(0.05)
    search.go.set()
    assert ids(await large) == [[f"l{n}.0"] for n in range(10)]
    assert ids(await small) == [["s0"]]
    assert [len(queries) for queries, _ in search.calls] == [4, 4, 3]
    assert search.calls[2][0] == ["s", "l8.", "l9."]
    assert together.waiting == 0
    together.close()


async def test_a_large_request_is_work_for_every_thread():
    running, most, lock = 0, 0, threading.Lock()

    def search(queries, topk):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        barrier.wait(5)
        with lock:
            running -= 1
        return [[] for _ in queries]

    barrier = threading.Barrier(2)
    together = batcher(search, threads=2)
    assert await together.search(["q"] * 16, 1) == [[]] * 16
    assert most == 2 and together.waiting == 0
    together.close()


async def test_queries_that_break_the_index_have_their_exception_in_place():
    def search(queries, topk):
        if "bad" in queries:
            raise RuntimeError("NaN")
        return [[Hit(Document(query, "", ""), 1.0)] for query in queries]

    together = batcher(search)
    outcomes = await together.search(["a", "bad", "b", "c", "d", "bad"], 1)
    assert [isinstance(outcome, RuntimeError) for outcome in outcomes] == [
        False,
        True,
        False,
        False,
        False,
        True,
    ]
    assert ids([outcome for outcome in outcomes if isinstance(outcome, list)]) == [["a"], ["b"], ["c"], ["d"]]
    assert together.waiting == 0
    together.close()


async def test_a_full_queue_refuses_but_a_large_request_alone_is_taken():
    search = Searches()
    together = batcher(search, max_waiting=2)
    large = asyncio.create_task(together.search(["a"] * 5, 1))
    await asyncio.sleep(0)
    with pytest.raises(QueueFull, match="5 queries are waiting"):
        await together.search(["b"], 1)
    search.go.set()
    assert len(await large) == 5
    together.close()
