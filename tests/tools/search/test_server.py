"""The server: readiness, limits, token, pages, metrics, reload, no blocked event loop."""

import asyncio
import threading
import time

import httpx
import pytest

from tools.search.app import Source, create_app
from tools.search.backend import IndexBackend
from tools.search.document import Document
from tools.search.index import bm25_index
from tools.search.settings import ServerError, ServerSettings, is_loopback

PAGES = [Document("0", "Dune", "A novel by Frank Herbert."), Document("1", "Frank Herbert", "A writer.")]


class Running:
    """The application with its lifespan, and a client of it, inside one event loop."""

    def __init__(self, load=lambda: bm25_index(PAGES), wait=True, version=None, **settings):
        self.failures = []
        settings = ServerSettings(**settings)
        source = Source(lambda: IndexBackend(load(), settings), version)
        self.app = create_app(source, settings, self.failures.append)
        self.wait = wait

    async def __aenter__(self):
        self.lifespan = self.app.router.lifespan_context(self.app)
        await self.lifespan.__aenter__()
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://test")
        if self.wait:
            await self.ready()
        return self

    async def ready(self):
        while (response := await self.http.get("/ready")).status_code == 503:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return response

    async def __aexit__(self, *_):
        await self.http.aclose()
        await self.lifespan.__aexit__(None, None, None)

    async def retrieve(self, **body):
        return await self.http.post("/retrieve", json=body)


async def test_no_match_and_blank_queries_have_empty_lists():
    async with Running() as server:
        response = await server.retrieve(queries=["xyzzy", "", "dune"], topk=50)
        assert [len(hits) for hits in response.json()["result"]] == [0, 0, 1]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "no query: give one of queries, query_list, query"),
        ({"queries": "dune"}, "queries: Input should be a valid"),
        ({"query": 3}, "query: Input should be a valid string"),
        ({"queries": ["a"] * 4}, "queries: 4 given, at most 3"),
        ({"queries": ["a"] * 3, "topk": 100}, "queries: 3 with 100 results each, at most 200 results"),
        ({"queries": [], "topk": 0}, "topk: 0 given, 1 to 100"),
        ({"queries": ["a"], "query": "a"}, "queries and query are given"),
        ({"queries": ["a"], "k": 0}, "k: 0 given, 1 to 100"),
        ({"queries": ["a"], "topk": 0}, "topk: 0 given, 1 to 100"),
        ({"queries": ["a"], "topk": -1}, "topk: -1 given"),
        ({"queries": ["a"], "topk": 101}, "topk: 101 given"),
        ({"queries": ["a"], "topk": "3"}, "topk: Input should be a valid integer"),
        ({"queries": ["a"], "topk": True}, "topk"),
    ],
)
async def test_bad_requests_are_refused_with_the_field_named(body, message):
    async with Running(max_queries=3, max_results=200) as server:
        response = await server.retrieve(**body)
        assert response.status_code == 422
        assert response.json()["error"].startswith(message)


async def test_bodies_that_are_not_json_or_too_large_are_refused():
    async with Running(max_body_bytes=100) as server:
        assert (await server.http.post("/retrieve", content=b"{")).status_code == 422
        assert (await server.http.post("/retrieve", content=b"\xff")).status_code == 422
        large = await server.http.post("/retrieve", content=b"x" * 101)
        assert large.status_code == 413
        assert "100 bytes" in large.json()["error"]
        assert (await server.http.get("/retrieve")).status_code == 405


async def test_health_answers_while_the_index_loads_and_ready_does_not():
    go = threading.Event()

    def load():
        go.wait(5)
        return bm25_index(PAGES)

    async with Running(load, wait=False) as server:
        assert (await server.http.get("/health")).status_code == 200
        assert (await server.http.get("/ready")).status_code == 503
        early = await server.retrieve(queries=["dune"])
        assert (early.status_code, early.headers["retry-after"]) == (503, "1")
        go.set()
        assert (await server.ready()).json() == {"status": "ready", "documents": 2}


@pytest.mark.parametrize("path", ["/health", "/healthz", "/ready", "/metrics", "/docs", "/openapi.json"])
async def test_head_answers_as_get_does(path):
    async with Running() as server:
        head, get = await server.http.head(path), await server.http.get(path)
        assert head.status_code == get.status_code == 200
        assert head.headers["content-type"] == get.headers["content-type"]


async def test_a_failed_load_is_told_by_ready_and_to_the_owner():
    def load():
        raise ValueError("line 3: not JSON")

    async with Running(load) as server:
        response = await server.http.get("/ready")
        assert (response.status_code, response.json()["error"]) == (500, "line 3: not JSON")
        assert server.failures == ["line 3: not JSON"]


class Slow:
    """An index whose searches block their thread."""

    def __len__(self):
        return 1

    def search_all(self, queries, topk):
        time.sleep(0.3)
        return [[] for _ in queries]


async def test_a_slow_search_does_not_block_the_event_loop_and_a_full_queue_says_so():
    async with Running(Slow, max_waiting=2) as server:
        first = [asyncio.create_task(server.retrieve(queries=["a"])) for _ in range(2)]
        await asyncio.sleep(0.05)
        begin = time.monotonic()
        assert (await server.http.get("/health")).status_code == 200
        refused = await server.retrieve(queries=["a"])
        assert time.monotonic() - begin < 0.2
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert [response.status_code for response in await asyncio.gather(*first)] == [200, 200]
        assert (await server.retrieve(queries=["a"])).status_code == 200


async def test_a_token_is_asked_for_searches_only():
    async with Running(token="s3cret") as server:
        assert (await server.http.get("/health")).status_code == 200
        for header in (None, "Bearer wrong", "s3cret", "Basic s3cret", "Bearer sécret"):
            headers = {"Authorization": header.encode()} if header else {}
            response = await server.http.post("/retrieve", json={"queries": ["dune"]}, headers=headers)
            assert response.status_code == 401
        headers = {"Authorization": "Bearer s3cret"}
        assert (
            await server.http.post("/retrieve", json={"queries": ["dune"]}, headers=headers)
        ).status_code == 200


def test_an_address_that_others_reach_needs_a_token():
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"))
    for host in ("0.0.0.0", "::", "10.0.0.7", "node-1"):
        with pytest.raises(ServerError, match="give a token"):
            ServerSettings(host=host)
        ServerSettings(host=host, token="t")


async def test_metrics_count_requests_by_status_and_queries():
    async with Running() as server:
        await server.retrieve(queries=["dune", "xyzzy"])
        await server.retrieve()
        text = (await server.http.get("/metrics")).text
        assert 'mempo_search_requests_total{route="/retrieve",status="200"} 1.0' in text
        assert 'mempo_search_requests_total{route="/retrieve",status="422"} 1.0' in text
        assert "mempo_search_queries_total 2.0" in text
        assert "mempo_search_empty_queries_total 1.0" in text
        assert 'mempo_search_seconds_count{route="/retrieve"} 2.0' in text


async def test_an_index_that_takes_the_place_of_another_is_served_and_a_broken_one_is_not(monkeypatch):
    monkeypatch.setattr("tools.search.app.RELOAD_CHECK_S", 0.01)
    pages, version, loads = list(PAGES), [1], []

    def load():
        loads.append(version[0])
        if version[0] == 2:
            raise ValueError("cut short")
        return bm25_index(pages)

    async def wait_for(condition):
        async with asyncio.timeout(5):
            while not await condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def documents():
        return (await server.http.get("/ready")).json()["documents"]

    async with Running(load, version=lambda: version[0]) as server:
        version[0] = 2

        async def failed():
            return 'reloads_total{outcome="failed"} 1.0' in (await server.http.get("/metrics")).text

        await wait_for(failed)
        assert (await server.retrieve(queries=["dune"])).status_code == 200
        pages.append(Document("2", "Arrakis", "A desert."))
        version[0] = 3

        async def grown():
            return await documents() == 3

        await wait_for(grown)
        assert (await server.retrieve(queries=["desert"])).json()["result"][0][0]["id"] == "2"
        assert loads == [1, 2, 3]


async def test_a_topk_beyond_the_corpus_and_a_corpus_of_one():
    async with Running(lambda: bm25_index(PAGES[:1])) as server:
        assert [
            len(hits) for hits in (await server.retrieve(queries=["dune"], topk=100)).json()["result"]
        ] == [1]
