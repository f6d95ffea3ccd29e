"""Processes of this machine that carry out calls, each one call at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from mempo.agents.base import RolloutError
from mempo.call_process import CallProcess
from mempo.pool_call import failed

# From the moment a process is wanted until its function begins: start, imports and transfer on a busy machine.
START_DEADLINE_S = 180.0


class ProcessPool:
    """At most `processes` processes, started when they are first needed. It belongs to the event loop that uses it first."""

    def __init__(self, processes: int) -> None:
        if processes < 1:
            raise ValueError(f"a pool of {processes} processes: run.pool_processes must be at least 1")
        self._workers = [_Worker() for _ in range(processes)]
        # Last in, first out: a process that runs already is taken before one is started.
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()
        for worker in self._workers:
            self._idle.put_nowait(worker)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def run(self, call: bytes, deadline_s: float) -> bytes:
        """The reply to a packed call, see `mempo.pool.Pool`.

        Failed with `pool_process_died`, `pool_deadline`, or `pool_start` if the function did not come to run.

        Raises:
            RuntimeError: the pool was closed, before or meanwhile, or it belongs to another event loop.
        """
        self._loop = self._loop or asyncio.get_running_loop()
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError("this process pool belongs to another event loop: make one for each")
        self._check_open()
        worker = await self._idle.get()
        try:
            self._check_open()
            reply = await worker.run(call, deadline_s)
        finally:
            self._idle.put_nowait(worker)
        self._check_open()
        return reply

    def close(self) -> None:
        """Ends the processes, and with them what they are doing. Whoever waits for a call, or comes later, is told so."""
        self._closed = True
        for worker in self._workers:
            worker.kill()  # at work, it is ended by its own call
        while not self._idle.empty():
            self._idle.get_nowait().end()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("this process pool is closed: nothing can be carried out in it any more")


class _Worker:
    """One process, started when it is needed; a call that does not finish ends it."""

    def __init__(self) -> None:
        self._process: CallProcess | None = None

    async def run(self, call: bytes, deadline_s: float) -> bytes:
        finished = False
        try:
            reply = await self._begin(call) or await self._reply(deadline_s)
            finished = True
        except RolloutError as error:
            return failed(error.cause, str(error))
        finally:
            if not finished:  # also when the caller was cancelled
                self.end()
        return reply

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    async def _begin(self, call: bytes) -> bytes:
        """Empty once the function runs; else the reply."""
        try:
            async with asyncio.timeout(START_DEADLINE_S):
                if self._process is not None:
                    with suppress(
                        EOFError, ConnectionError
                    ):  # it ended while it was idle: no fault of this call
                        return await self._process.ask(call)
                    self.end()
                self._process = CallProcess()
                return await self._process.ask(call)
        except TimeoutError:
            raise RolloutError(
                "pool_start",
                f"the function did not begin in {START_DEADLINE_S:g} s; its process was ended. Either the machine is "
                "overloaded, or the import of the function's module hangs",
            ) from None
        except (EOFError, ConnectionError):
            raise RolloutError(
                "pool_start",
                "its process ended before the function began, while it started or imported the function's module: its "
                "last words are in the log",
            ) from None
        except OSError as error:
            raise RolloutError("pool_start", f"no process could be started: {error}") from error

    async def _reply(self, deadline_s: float) -> bytes:
        assert self._process is not None
        try:
            async with asyncio.timeout(deadline_s):
                return await self._process.answer()
        except TimeoutError:
            raise RolloutError(
                "pool_deadline", f"not done in {deadline_s:g} s; its process was ended"
            ) from None
        except (EOFError, ConnectionError):
            raise RolloutError(
                "pool_process_died", "its process ended without a reply: killed, out of memory, or os._exit"
            ) from None
