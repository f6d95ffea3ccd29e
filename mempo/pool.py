"""Work that computes for long, away from the event loop: `await in_pool(function, ..., deadline_s=60)`.

Whoever runs rollouts says which pool takes it: evaluation one of its own (`mempo.process_pool`), training that of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from mempo.pool_call import pack, unpack

Result = TypeVar("Result")


class Pool(Protocol):
    """Other processes that carry out calls."""

    async def run(self, call: bytes, deadline_s: float) -> bytes:
        """The reply to a packed call (`mempo.pool_call`); never raises for anything that the call does.

        Raises:
            RuntimeError: the pool is closed, or cannot be used from here.
        """
        ...


_in_use: ContextVar[Pool] = ContextVar("mempo_pool")


@contextmanager
def pool_in_use(pool: Pool) -> Iterator[None]:
    """`in_pool` hands its work to `pool`, in here and in the tasks that are started in here."""
    token = _in_use.set(pool)
    try:
        yield
    finally:
        _in_use.reset(token)


async def in_pool(function: Callable[..., Result], *args: object, deadline_s: float) -> Result:
    """`function(*args)`, carried out in another process; other rollouts go on meanwhile.

    Args:
        function: of a module that the process can import; not of the program itself (`__main__`), which it does not.
        deadline_s: seconds from the moment the function begins until its result is here. The wait for a process, its
            start and the import of the function's module are not counted: they have a deadline of their own.

    Raises:
        RolloutError: with the class of the function's exception as the cause, or `pool_start` (it did not come to run),
            `pool_deadline`, `pool_process_died`, `pool_actor_died`, `pool_reply_unreadable` (its result cannot be
            unpickled). It costs this rollout alone.
        ValueError: the call cannot be pickled, or the function belongs to the program itself.
        RuntimeError: there is no pool; it is closed; or it belongs to another event loop.
    """
    pool = _in_use.get(None)
    if pool is None:
        raise RuntimeError("no process pool: run rollouts inside `with mempo.pool.pool_in_use(pool)`")
    result: Result = unpack(await pool.run(pack(function, args), deadline_s))
    return result
