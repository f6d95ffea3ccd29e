"""The whole: results with scores, pages, replay without web and key, and counts of what happened."""

import json
import logging

import pytest

from tools.search.client import SearchFailure
from tools.search.settings import ServerError
from tools.search.web.cache import WebCache
from tools.search.web.pages import PageSettings
from tools.search.web.provider import ProviderSettings
from tools.search.web.searcher import WebSearcher

PAGES = PageSettings(allowed_networks=("127.0.0.1/32",))


def respond(number, path):
    """An API that finds two results, or what the query says, and a site with one page."""
    if path == "/dune":
        return 200, {"Content-Type": "text/plain"}, b"A novel."
    if path != "/search":
        return 404, {"Content-Type": "text/plain"}, b""
    return {"organic": [{"title": t, "link": f"https://a.example/{t}", "snippet": t} for t in ("one", "two")]}


@pytest.fixture
def make(tmp_path, key):
    def build(server, mode="use"):
        provider = ProviderSettings(base_url=f"{server.url}/", requests_per_s=1000.0, deadline_s=10.0)
        return WebSearcher(WebCache(tmp_path / "cache", mode), provider, PAGES)

    return build


async def test_scores_fall_with_the_rank_and_blank_queries_are_not_sent(serve, make):
    server = serve(respond)
    searcher = make(server)
    dune, blank, herbert = await searcher.search(["dune", " \n", "herbert"], 2)
    assert [(document.id, score) for document, score in dune] == [
        ("https://a.example/one", 1.0),
        ("https://a.example/two", 0.5),
    ]
    assert blank == []
    assert herbert == dune
    assert len(server.requests) == 2
    assert searcher.counts == {"search/ok": 2}
    assert await searcher.search([], 3) == []
    with pytest.raises(ValueError, match="topk is 0"):
        await searcher.search(["dune"], 0)
    await searcher.aclose()


async def test_pages_stand_where_their_addresses_stand_and_failures_are_counted(serve, make):
    server = serve(respond)
    searcher = make(server)
    missing, page, local = await searcher.access(
        [f"{server.url}/no", f"{server.url}/dune", "http://127.0.0.9/"]
    )
    assert missing is None and local is None
    assert (page.url, page.text, page.contents) == (
        f"{server.url}/dune",
        "A novel.",
        f'"{server.url}/dune"\nA novel.',
    )
    assert searcher.counts == {"access/ok": 1, "access/failed/status_404": 1, "access/failed/address": 1}


async def test_empty_and_failed_searches_differ_and_only_the_first_is_kept(serve, make):
    server = serve(lambda n, path: {"organic": []} if n != 2 else (400, {}, {"message": "no"}))
    searcher = make(server)
    assert await searcher.search(["dune"], 3) == [[]]
    (failure,) = await searcher.search(["herbert"], 3)
    assert isinstance(failure, SearchFailure) and "HTTP 400" in str(failure)
    assert await searcher.search(["dune", "herbert"], 3) == [[], []]
    assert len(server.requests) == 3
    assert searcher.counts == {"search/empty": 3, "search/failed/status_400": 1}


async def test_one_failed_query_stands_in_its_place_among_the_answers_to_the_others(serve, make):
    server = serve(
        lambda n, path: respond(n, path) if b"good" in server.requests[n - 1][2] else (400, {}, {})
    )
    searcher = make(server)
    one, bad, two = await searcher.search(["good 1", "bad", "good 2"], 2)
    assert isinstance(bad, SearchFailure) and "HTTP 400" in str(bad)
    assert len(one) == len(two) == 2
    assert await searcher.search(["good 1", "good 2"], 2) == [one, two], "from the cache"
    assert len(server.requests) == 3


async def test_a_replay_needs_neither_server_nor_key(serve, make, monkeypatch):
    server = serve(respond)
    recording = make(server)
    results = await recording.search(["dune"], 2)
    pages = await recording.access([f"{server.url}/dune", f"{server.url}/no"])
    server.close()
    monkeypatch.delenv("SERPER_API_KEY")
    replay = make(server, "replay")
    assert await replay.search(["dune"], 2) == results
    assert await replay.access([f"{server.url}/dune", f"{server.url}/no"]) == pages
    for queries, topk in ((["herbert"], 2), (["dune"], 3)):
        (failure,) = await replay.search(queries, topk)
        assert failure.cause == "not_in_cache" and queries[0] in str(failure)
    await replay.aclose()
    with pytest.raises(ServerError, match="SERPER_API_KEY"):
        make(server)


async def test_the_key_is_in_no_file_message_or_log(serve, make, key, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    server = serve(lambda n, path: respond(n, path) if n == 1 else (401, {}, {"message": f"bad key {key}"}))
    searcher = make(server)
    await searcher.search(["dune"], 2)
    (failure,) = await searcher.search(["herbert"], 2)
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(files) == 1
    shown = [path.read_text() + str(path) for path in files] + [
        caplog.text,
        str(failure),
        repr(vars(searcher)),
    ]
    assert not any(key in text for text in shown)
    assert "search/failed/status_401" in caplog.text
    assert json.loads(files[0].read_text())["request"] == {"num": 2, "q": "dune"}


async def test_a_web_that_is_down_does_not_flood_the_log(serve, make, caplog):
    searcher = make(serve(respond))
    await searcher.access([f"http://127.0.0.9/{n}" for n in range(100)])
    assert searcher.counts == {"access/failed/address": 100}
    assert len([record for record in caplog.records if record.name.startswith("tools.")]) == 7
