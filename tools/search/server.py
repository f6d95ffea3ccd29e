"""Running the search application until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

import uvicorn

from tools.search.app import Searcher, create_app
from tools.search.settings import ServerError, ServerSettings


def serve(
    load: Callable[[], Searcher],
    settings: ServerSettings,
    listener: socket.socket | None = None,
    parent: int | None = None,
) -> None:
    """Runs a server until it is told to stop (SIGINT, SIGTERM).

    Args:
        listener: a bound socket to use instead of `settings.host` and `settings.port`.
        parent: process id of the starter; the server stops when that process is gone, however it ended.

    Raises:
        ServerError: the index cannot be loaded, or the address is in use.
    """
    failures: list[str] = []

    def stop(reason: str) -> None:
        failures.append(reason)
        server.should_exit = True

    app = create_app(load, settings, stop)
    server = uvicorn.Server(
        uvicorn.Config(app, settings.host, settings.port, log_level="warning", timeout_graceful_shutdown=3)
    )

    async def run() -> None:
        watch = asyncio.create_task(_watch(parent, server)) if parent is not None else None
        try:
            await server.serve([listener] if listener is not None else None)
        finally:
            if watch is not None:
                watch.cancel()

    try:
        asyncio.run(run())
    except SystemExit as error:  # uvicorn's way to say that it could not bind
        raise ServerError(f"cannot listen on {settings.host}:{settings.port}; is the port in use?") from error
    except KeyboardInterrupt:
        pass
    if failures:
        raise ServerError(failures[0])


async def _watch(parent: int, server: uvicorn.Server) -> None:
    """Stops the server once its starter is no longer the parent: a killed training run must leave nothing behind."""
    while os.getppid() == parent:  # noqa: ASYNC110 (no event tells of a lost parent)
        await asyncio.sleep(1)
    server.should_exit = True
