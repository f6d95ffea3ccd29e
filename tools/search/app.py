"""The search server's routes: `/retrieve`, `/access`, `/health`, `/ready`, `/metrics`."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from tools.search.backend import Backend
from tools.search.batching import Outcome, QueueFull
from tools.search.client import SearchFailure
from tools.search.metrics import Metrics
from tools.search.settings import ServerSettings
from tools.search.shapes import (
    AccessBody,
    BadQuery,
    BadRequest,
    RetrieveBody,
    pages_answer,
    read_access,
    read_search,
    reason,
    search_answer,
)

_log = logging.getLogger(__name__)
RELOAD_CHECK_S = 1.0

Answer = TypeVar("Answer", bound=Callable[..., Any])
Found = TypeVar("Found")


@dataclass(frozen=True)
class Source:
    """Where a server's index comes from.

    Attributes:
        load: opens it; may block for long, runs in a thread.
        version: changes when another index has taken its place; None for one that never changes.
    """

    load: Callable[[], Backend]
    version: Callable[[], Any] | None = None


class _Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


class _State:
    """The backend once it is loaded, or why it is not."""

    backend: Backend | None = None
    failure: str | None = None


def create_app(
    source: Source, settings: ServerSettings, on_failure: Callable[[str], None] = lambda _: None
) -> FastAPI:
    """The application. The index loads in a thread after start-up, so that `/health` answers while a large one loads.

    Args:
        on_failure: called on the event loop with the reason if loading fails; `/ready` then says so as well.
    """
    state, metrics = _State(), Metrics()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        keeping = asyncio.create_task(_keep(source, state, metrics, on_failure))
        yield
        keeping.cancel()
        if state.backend is not None:
            await state.backend.aclose()

    app = FastAPI(title="mempo search", lifespan=lifespan)

    @app.exception_handler(_Refusal)
    async def refuse(_: Request, refusal: _Refusal) -> JSONResponse:
        return JSONResponse({"error": str(refusal)}, status_code=refusal.status, headers=refusal.headers)

    def get(path: str, in_schema: bool = True) -> Callable[[Answer], Answer]:
        def add(answer: Answer) -> Answer:
            app.head(path, include_in_schema=False)(answer)  # load balancers ask this way
            return app.get(path, include_in_schema=in_schema)(answer)

        return add

    @get("/health")
    @get("/healthz", in_schema=False)
    async def health() -> dict[str, str]:
        """The process is alive; says nothing about the index."""
        return {"status": "ok"}

    @get("/ready")
    async def ready() -> JSONResponse:
        """200 once searches can be answered, 503 while the index loads, 500 if it could not be loaded."""
        if state.failure is not None:
            return JSONResponse({"status": "failed", "error": state.failure}, status_code=500)
        if state.backend is None:
            return JSONResponse({"status": "loading"}, status_code=503, headers={"Retry-After": "1"})
        return JSONResponse({"status": "ready", "documents": state.backend.documents})

    @get("/metrics")
    async def numbers() -> Response:
        """Counters in the Prometheus format, over all workers."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.post("/retrieve", openapi_extra=_body_schema(RetrieveBody))
    async def retrieve(request: Request) -> Response:
        """Results of every query, best first. One that matches nothing has an empty list; so has one that failed (too
        long, blank, not a string, not searched), and `errors` then says why, in its place."""

        async def answer(backend: Backend, body: bytes) -> Any:
            asked = read_search(body, settings)
            searched = [query for query in asked.queries if isinstance(query, str)]
            found = await backend.search(searched, asked.topk) if searched else []
            _check_any_found(found)
            outcomes = _in_place(asked.queries, found)
            failed = sum(isinstance(outcome, Exception) for outcome in outcomes)
            metrics.queries.inc(len(outcomes))
            metrics.failed.inc(failed)
            metrics.empty.inc(sum(not outcome for outcome in outcomes))
            return search_answer(asked, outcomes)

        return await handle(request, "/retrieve", answer)

    @app.post("/access", openapi_extra=_body_schema(AccessBody))
    async def access(request: Request) -> Response:
        """Pages by address, by title or by the `url` of a result; null for one that is not there."""

        async def answer(backend: Backend, body: bytes) -> Any:
            asked = read_access(body, settings)
            pages = await backend.pages([name for name in asked if isinstance(name, str)])
            return pages_answer(_in_place(asked, pages))

        return await handle(request, "/access", answer)

    async def handle(
        request: Request, route: str, answer: Callable[[Backend, bytes], Awaitable[Any]]
    ) -> Response:
        begin, status = time.perf_counter(), 500
        try:
            _check_token(request, settings.token)
            body = await _read(request, settings.max_body_bytes)
            if state.backend is None:
                raise _Refusal(503, "the index is still loading; wait for /ready", {"Retry-After": "1"})
            try:
                content = await answer(state.backend, body)
            except BadRequest as error:
                raise _Refusal(422, str(error)) from error
            except QueueFull as error:
                raise _Refusal(503, str(error), {"Retry-After": "1"}) from error
            status = 200
            return Response(_dump(content), media_type="application/json")
        except _Refusal as refusal:
            status = refusal.status
            raise
        finally:
            metrics.requests.labels(route, str(status)).inc()
            metrics.seconds.labels(route).observe(time.perf_counter() - begin)
            metrics.waiting.set(state.backend.waiting if state.backend else 0)

    return app


async def _keep(source: Source, state: _State, metrics: Metrics, on_failure: Callable[[str], None]) -> None:
    """Loads the index, then every newer one that takes its place; a newer one that cannot be loaded is left aside."""
    version = _version(source)
    try:
        state.backend = await asyncio.to_thread(source.load)
    except Exception as error:  # whatever it is, it must reach /ready and the caller instead of a log
        state.failure = str(error) or type(error).__name__
        on_failure(state.failure)
        return
    while source.version is not None:
        await asyncio.sleep(RELOAD_CHECK_S)
        now = _version(source)
        if now is None or now == version:  # None: it is being replaced at this moment
            continue
        version = now
        try:
            newer = await asyncio.to_thread(source.load)
        except Exception as error:
            metrics.reloads.labels("failed").inc()
            _log.error("the new index cannot be loaded, the old one goes on: %s", error)
            continue
        metrics.reloads.labels("done").inc()
        old, state.backend = state.backend, newer
        while old.waiting:  # noqa: ASYNC110 (its last searches)
            await asyncio.sleep(0.1)
        await old.aclose()


def _version(source: Source) -> Any:
    try:
        return source.version() if source.version is not None else None
    except OSError:
        return None


def _in_place(asked: Sequence[str | BadQuery], found: Sequence[Found]) -> list[Found | BadQuery]:
    """What was found for the good texts, among those that were not searched."""
    answers = iter(found)
    return [next(answers) if isinstance(text, str) else text for text in asked]


def _check_any_found(outcomes: Sequence[Outcome]) -> None:
    """Where no search worked, the request has failed: with a status, as a client may try again later."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    for failure in failures:
        if not isinstance(failure, SearchFailure):  # those are logged where they happen
            _log.error("a query could not be searched: %s", reason(failure), exc_info=failure)
            break
    if failures and len(failures) == len(outcomes):
        status = 502 if isinstance(failures[0], SearchFailure) else 500
        raise _Refusal(status, reason(failures[0]))


def _dump(content: Any) -> bytes:
    try:
        return orjson.dumps(content)
    except TypeError:  # a lone surrogate in a document
        return json.dumps(content).encode()


def _body_schema(kind: type[RetrieveBody] | type[AccessBody]) -> dict[str, Any]:
    return {"requestBody": {"content": {"application/json": {"schema": kind.model_json_schema()}}}}


def _check_token(request: Request, token: str | None) -> None:
    if token is None:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise _Refusal(401, "a valid bearer token is required", {"WWW-Authenticate": "Bearer"})


async def _read(request: Request, limit: int) -> bytes:
    """The body, read only up to the limit."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise _Refusal(413, f"the body is larger than {limit} bytes; send fewer queries at a time")
    return bytes(body)
