"""Running the search application until it is told to stop, in one process or in several."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import resource
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait

import uvicorn

from tools.search.app import Source, create_app
from tools.search.listening import bind
from tools.search.metrics import SHARED_FOLDER
from tools.search.settings import ServerError, ServerSettings

_log = logging.getLogger(__name__)
BACKLOG = 4096  # connections that wait for a worker: a whole batch of agents asks at once
GRACE_S = 5  # for requests that are at work when the server is told to stop

MakeSource = Callable[[ServerSettings], Source]


def serve(
    make_source: MakeSource,
    settings: ServerSettings,
    listener: socket.socket | None = None,
    parent: int | None = None,
) -> None:
    """Runs a server until it is told to stop (SIGINT, SIGTERM).

    Args:
        make_source: called in each worker; with several workers it has to be picklable.
        listener: a bound socket to use instead of `settings.host` and `settings.port`.
        parent: process id of the starter; the server stops when that process is gone, however it ended.

    Raises:
        ServerError: the index cannot be loaded, or the address is in use.
    """
    _raise_file_limit()
    listener = listener or bind(settings.host, settings.port)
    if settings.workers == 1:
        _serve_one(make_source, settings, listener, parent)
    else:
        _serve_many(make_source, settings, listener, parent)


def _serve_one(
    make_source: MakeSource, settings: ServerSettings, listener: socket.socket, parent: int | None
) -> None:
    failures: list[str] = []

    def stop(reason: str) -> None:
        failures.append(reason)
        server.should_exit = True

    app = create_app(make_source(settings), settings, stop)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=GRACE_S,
        )
    )

    async def run() -> None:
        watch = asyncio.create_task(_watch(parent, server)) if parent is not None else None
        try:
            await server.serve([listener])
        finally:
            if watch is not None:
                watch.cancel()

    with suppress(KeyboardInterrupt):
        asyncio.run(run())
    if failures:
        raise ServerError(failures[0])


async def _watch(parent: int, server: uvicorn.Server) -> None:
    """Stops the server once its starter is no longer the parent: a killed training run must leave nothing behind."""
    while os.getppid() == parent:  # noqa: ASYNC110 (no event tells of a lost parent)
        await asyncio.sleep(1)
    server.should_exit = True


def _serve_many(
    make_source: MakeSource, settings: ServerSettings, listener: socket.socket, parent: int | None
) -> None:
    """Starts the workers, starts those again that die, and ends them all with this process."""
    # A worker would otherwise start with modules from the current folder: a file `signal.py` there ends it.
    os.environ["PYTHONSAFEPATH"] = "1"
    context = multiprocessing.get_context("spawn")
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    with tempfile.TemporaryDirectory(prefix="mempo-search-") as shared:
        os.environ[SHARED_FOLDER] = shared

        def start() -> multiprocessing.process.BaseProcess:
            worker = context.Process(
                target=_work, args=(make_source, settings, listener, os.getpid()), daemon=True
            )
            worker.start()
            return worker

        workers = [start() for _ in range(settings.workers)]
        try:
            while not ending.is_set() and (parent is None or os.getppid() == parent):
                wait([worker.sentinel for worker in workers], timeout=0.5)
                for place, worker in enumerate(workers):
                    if not worker.is_alive() and not ending.is_set():
                        if worker.exitcode == _CANNOT_LOAD:
                            raise ServerError("a worker could not load the index; its reason stands above")
                        _log.error("worker %s ended with %s; starting another", worker.pid, worker.exitcode)
                        workers[place] = start()
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.join(GRACE_S + 5)
                worker.kill()
            del os.environ[SHARED_FOLDER]


_CANNOT_LOAD = 3


def _work(make_source: MakeSource, settings: ServerSettings, listener: socket.socket, parent: int) -> None:
    try:
        _serve_one(make_source, settings, listener, parent)
    except ServerError as error:
        print(f"error: {error}", flush=True)
        raise SystemExit(_CANNOT_LOAD) from error


def _raise_file_limit() -> None:
    """Every client is an open file: takes as many as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
