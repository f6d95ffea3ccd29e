"""Processes of this machine that carry out calls, each one call at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context, parent_process

from mempo.pool_call import failed, perform


class ProcessPool:
    """At most `processes` processes, started when they are first needed.

    Each has an executor of its own: in a common one, a process that dies would take all running and waiting calls along.
    So it takes its own call only, and the next one starts it anew.
    """

    def __init__(self, processes: int) -> None:
        if processes < 1:
            raise ValueError(f"a pool of {processes} processes: run.pool_processes must be at least 1")
        self._workers = [_Worker() for _ in range(processes)]
        # Last in, first out: a process that runs already is taken before one is started.
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()
        for worker in self._workers:
            self._idle.put_nowait(worker)

    async def run(self, call: bytes, deadline_s: float) -> bytes:
        """The reply to a packed call, see `mempo.pool.Pool`; failed with `pool_process_died` or `pool_deadline`."""
        worker = await self._idle.get()
        try:
            return await worker.run(call, deadline_s)
        finally:
            self._idle.put_nowait(worker)

    def close(self) -> None:
        """Ends the processes, and with them what they are doing."""
        for worker in self._workers:
            worker.end()


class _Worker:
    """One process, started when it is needed; a call that does not finish ends it."""

    def __init__(self) -> None:
        self._executor: ProcessPoolExecutor | None = None
        self._pid: Future[int] = Future()

    async def run(self, call: bytes, deadline_s: float) -> bytes:
        finished = False
        try:
            async with asyncio.timeout(deadline_s):
                reply = await asyncio.wrap_future(self._submit(call))
            finished = True
        except TimeoutError:
            return failed("pool_deadline", f"not done in {deadline_s:g} s; its process was ended")
        except BrokenProcessPool:
            return failed(
                "pool_process_died", "its process ended without a reply: killed, out of memory, or os._exit"
            )
        finally:
            if not finished:  # also when the caller was cancelled
                self.end()
        return reply

    def end(self) -> None:
        """Kills the process, or as soon as it has come up."""
        if self._executor is not None:
            self._pid.add_done_callback(_kill)
            self._executor.shutdown(wait=False)
            self._executor = None

    def _submit(self, call: bytes) -> Future[bytes]:
        try:
            return self._started().submit(perform, call)
        except BrokenProcessPool:  # it ended while it was idle: no fault of this call
            self.end()
            return self._started().submit(perform, call)

    def _started(self) -> ProcessPoolExecutor:
        if self._executor is None:
            # Not fork: threads of the event loop's process may hold locks.
            self._executor = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_begin)
            self._pid = self._executor.submit(os.getpid)
        return self._executor


def _kill(pid: Future[int]) -> None:
    if pid.exception() is None:
        with suppress(ProcessLookupError):
            os.kill(pid.result(), signal.SIGKILL)


def _begin() -> None:
    """In the new process: Ctrl-C is the parent's to answer, and when the parent is gone, so is this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
