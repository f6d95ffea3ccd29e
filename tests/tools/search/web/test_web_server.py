"""The web behind the server's own routes."""

import asyncio
from types import SimpleNamespace

import httpx
import pytest

from tools.search.app import Source, create_app
from tools.search.client import SearchFailure
from tools.search.document import Document
from tools.search.settings import ServerSettings
from tools.search.web.backend import WebBackend

PAGE = Document("https://x.org/dune", "Dune", "A novel.", "https://x.org/dune")


class Web:
    """Finds one page, and breaks on the word `down`."""

    async def search(self, queries, topk):
        down = SearchFailure("timeout", "no result within 30 s")
        return [down if query == "down" else [(PAGE, 1.0)] for query in queries]

    async def access(self, urls):
        return [PAGE if url == PAGE.url else None for url in urls]

    async def aclose(self):
        self.closed = True


@pytest.fixture
async def server():
    web = Web()
    app = create_app(Source(lambda: WebBackend(web)), ServerSettings())
    async with app.router.lifespan_context(app):
        http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")
        async with http:
            while (await http.get("/ready")).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            yield SimpleNamespace(http=http)
    assert web.closed


async def test_results_and_pages_come_in_the_usual_shapes(server):
    found = (
        await server.http.post("/retrieve", json={"queries": ["dune", ""], "return_scores": True})
    ).json()
    assert found["result"][0][0]["document"]["url"] == PAGE.url and found["result"][1] == []
    pages = (await server.http.post("/access", json={"urls": [PAGE.url, "https://y.org"]})).json()["result"]
    assert pages[0]["contents"] == PAGE.contents and pages[1] is None
    assert (await server.http.get("/ready")).json() == {"status": "ready", "documents": None}


async def test_a_failed_search_loses_none_of_its_batch(server):
    answer = (await server.http.post("/retrieve", json={"queries": ["dune", "down", "dune"]})).json()
    assert [len(hits) for hits in answer["result"]] == [1, 0, 1]
    assert answer["errors"] == [None, "timeout: no result within 30 s", None]


async def test_a_failed_search_is_an_error_with_its_cause_and_not_an_empty_result(server):
    answer = await server.http.post("/retrieve", json={"queries": ["down"]})
    assert (answer.status_code, answer.json()["error"]) == (502, "timeout: no result within 30 s")
