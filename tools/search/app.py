"""The search server's routes: `POST /retrieve` in the Search-R1 shape, `GET /health`, `GET /ready`."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Protocol

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError

from tools.search.index import Hit
from tools.search.settings import ServerSettings


class Searcher(Protocol):
    """What the server needs of an index; `search` may block and is called from several threads."""

    def __len__(self) -> int: ...

    def search(self, query: str, topk: int) -> list[Hit]: ...


class RetrieveRequest(BaseModel):
    """Body of `/retrieve`; other keys are ignored, as clients send more than they need."""

    model_config = ConfigDict(strict=True)

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


class _Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


class _State:
    """The index once it is loaded, or why it is not; and how many requests are waiting."""

    index: Searcher | None = None
    failure: str | None = None
    waiting: int = 0


def create_app(
    load: Callable[[], Searcher], settings: ServerSettings, on_failure: Callable[[str], None] = lambda _: None
) -> FastAPI:
    """The application. `load` runs in a thread after start-up, so that `/health` answers while a large index loads.

    Args:
        on_failure: called on the event loop with the reason if `load` raises; `/ready` then says so as well.
    """
    state = _State()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        pool = ThreadPoolExecutor(settings.threads, thread_name_prefix="search")
        app.state.pool = pool

        async def load_index() -> None:
            try:
                state.index = await asyncio.get_running_loop().run_in_executor(pool, load)
            except Exception as error:  # whatever it is, it must reach /ready and the caller instead of a log
                state.failure = str(error) or type(error).__name__
                on_failure(state.failure)

        loading = asyncio.create_task(load_index())
        yield
        loading.cancel()
        pool.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(title="mempo search", lifespan=lifespan)
    app.state.search = state

    @app.exception_handler(_Refusal)
    async def refuse(_: Request, refusal: _Refusal) -> JSONResponse:
        return JSONResponse({"error": str(refusal)}, status_code=refusal.status, headers=refusal.headers)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """The process is alive; says nothing about the index."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> JSONResponse:
        """200 once searches can be answered, 503 while the index loads, 500 if it could not be loaded."""
        if state.failure is not None:
            return JSONResponse({"status": "failed", "error": state.failure}, status_code=500)
        if state.index is None:
            return JSONResponse({"status": "loading"}, status_code=503, headers={"Retry-After": "1"})
        return JSONResponse({"status": "ready", "documents": len(state.index)})

    schema = {
        "requestBody": {"content": {"application/json": {"schema": RetrieveRequest.model_json_schema()}}}
    }

    @app.post("/retrieve", openapi_extra=schema)
    async def retrieve(request: Request) -> dict[str, Any]:
        """Results of every query, best first. A query that matches nothing, or is blank, has an empty list."""
        _check_token(request, settings.token)
        body = _parse(await _read(request, settings.max_body_bytes), settings)
        if state.index is None:
            raise _Refusal(503, "the index is still loading; wait for /ready", {"Retry-After": "1"})
        if state.waiting >= settings.max_waiting:
            raise _Refusal(503, f"{state.waiting} requests are waiting already", {"Retry-After": "1"})
        topk = settings.default_topk if body.topk is None else body.topk
        state.waiting += 1
        try:
            results = await asyncio.get_running_loop().run_in_executor(
                app.state.pool, _search_all, state.index, body.queries, topk
            )
        finally:
            state.waiting -= 1
        return {"result": [[_result(hit, body.return_scores) for hit in hits] for hits in results]}

    return app


def _search_all(index: Searcher, queries: list[str], topk: int) -> list[list[Hit]]:
    return [index.search(query, topk) if query.strip() else [] for query in queries]


def _result(hit: Hit, with_score: bool) -> dict[str, Any]:
    document = {"id": hit.document.id, "contents": hit.document.contents}
    return {"document": document, "score": hit.score} if with_score else document


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


def _parse(body: bytes, settings: ServerSettings) -> RetrieveRequest:
    try:
        request = RetrieveRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "body"
        raise _Refusal(422, f"{place}: {first['msg']}") from error
    if not request.queries:
        raise _Refusal(422, "queries: the list is empty")
    if len(request.queries) > settings.max_queries:
        raise _Refusal(
            422, f"queries: {len(request.queries)} given, at most {settings.max_queries} are allowed"
        )
    for position, query in enumerate(request.queries):
        if len(query) > settings.max_query_chars:
            raise _Refusal(
                422,
                f"queries.{position}: {len(query)} characters, at most {settings.max_query_chars} are allowed",
            )
    if request.topk is not None and not 1 <= request.topk <= settings.max_topk:
        raise _Refusal(422, f"topk: {request.topk} given, 1 to {settings.max_topk} are allowed")
    return request
