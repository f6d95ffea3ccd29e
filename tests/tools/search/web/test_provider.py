"""The search API: failure is told from no results, one deadline bounds it all, the key stays inside."""

import asyncio
import json
import logging
import pickle
import time

import pytest

from tools.search.client import SearchFailure
from tools.search.settings import ServerError
from tools.search.web import provider as module
from tools.search.web.provider import ProviderSettings, SerperProvider

DUNE = {"title": "Dune", "link": "https://a.example/dune", "snippet": "A novel."}
HERBERT = {"title": "Frank\n Herbert", "link": "https://b.example/", "position": 2}


@pytest.fixture
def make(serve, key, monkeypatch):
    """Builds a provider and the fake API that it asks."""
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)

    def build(answer, **settings):
        server = serve(lambda number, path: answer(number))
        settings = {"deadline_s": 10.0, "requests_per_s": 1000.0} | settings
        return SerperProvider(ProviderSettings(base_url=server.url, **settings)), server

    return build


async def fail(provider, query="dune", topk=3):
    with pytest.raises(SearchFailure) as caught:
        await provider.search(query, topk)
    return caught.value


async def test_results_become_documents_with_their_address(make):
    answer = {"searchParameters": {}, "organic": [DUNE, HERBERT], "knowledgeGraph": {"title": "Dune"}}
    provider, server = make(lambda n: answer)
    dune, herbert = await provider.search("dune", 5)
    assert (dune.id, dune.url, dune.title, dune.text) == (DUNE["link"], DUNE["link"], "Dune", "A novel.")
    assert dune.contents == '"Dune"\nA novel.'
    assert (herbert.title, herbert.text) == ("Frank Herbert", "")
    path, headers, body = server.requests[0]
    assert (path, headers["X-API-KEY"], json.loads(body)) == (
        "/search",
        "s3cret-key",
        {"q": "dune", "num": 5},
    )
    await provider.aclose()


async def test_an_address_comes_once_and_no_more_results_than_asked(make):
    provider, _ = make(
        lambda n: {"organic": [DUNE, DUNE | {"title": "again"}, {"title": "no link"}, HERBERT, DUNE]}
    )
    assert [document.title for document in await provider.search("dune", 5)] == ["Dune", "Frank Herbert"]
    assert [document.title for document in await provider.search("dune", 1)] == ["Dune"]


async def test_no_results_are_no_failure(make):
    provider, server = make(lambda n: {"organic": []})
    assert await provider.search("xyzzy", 3) == []
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "organic is not a list"),
        ([], "organic is not a list"),
        (None, "organic is not a list"),
        ({"message": "x"}, "organic"),
        ({"organic": None}, "organic"),
        ({"organic": {}}, "organic"),
        ({"organic": ["text"]}, "organic.0 is not an object"),
        ({"organic": [DUNE, DUNE | {"link": 3}]}, "organic.1.link is not a string"),
        ({"organic": [{"url": "https://a.example/"}]}, "no result in organic has a link"),
    ],
)
async def test_another_schema_is_a_failure_that_names_the_place(make, body, place):
    provider, server = make(lambda n: body)
    failure = await fail(provider)
    assert failure.cause == "schema"
    assert place in str(failure)
    assert len(server.requests) == 1


async def test_a_body_that_is_not_json_is_a_failure(make):
    provider, _ = make(lambda n: (200, {}, b"<html>"))
    assert (await fail(provider)).cause == "schema"


async def test_retry_after_is_waited_for(make):
    provider, server = make(lambda n: (429, {"Retry-After": "0.3"}, {}) if n == 1 else {"organic": [DUNE]})
    begin = time.monotonic()
    assert len(await provider.search("dune", 3)) == 1
    assert time.monotonic() - begin >= 0.3
    assert len(server.requests) == 2


@pytest.mark.parametrize("wait", ["3600", "inf", "Fri, 31 Dec 2100 23:59:59 GMT"])
async def test_a_retry_after_beyond_the_deadline_fails_at_once(make, wait):
    provider, server = make(lambda n: (429, {"Retry-After": wait}, {}))
    begin = time.monotonic()
    assert (await fail(provider)).cause == "status_429"
    assert time.monotonic() - begin < 5
    assert len(server.requests) == 1


async def test_server_errors_are_retried_until_the_deadline(make):
    provider, server = make(lambda n: (500, {}, {}), deadline_s=1.0)
    begin = time.monotonic()
    assert (await fail(provider)).cause in ("status_500", "timeout")
    assert time.monotonic() - begin < 2
    assert len(server.requests) >= 4


async def test_a_hanging_api_ends_at_the_deadline(make):
    provider, server = make(lambda n: server.hang(), deadline_s=0.3)
    begin = time.monotonic()
    assert (await fail(provider)).cause == "timeout"
    assert 0.3 <= time.monotonic() - begin < 2


async def test_connection_errors_are_retried(make):
    provider, server = make(lambda n: {}, deadline_s=0.5)
    server.close()
    assert (await fail(provider)).cause in ("connection", "timeout")


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404])
async def test_what_another_attempt_cannot_mend_is_tried_once(make, status):
    provider, server = make(lambda n: (status, {"Location": "/elsewhere"}, {"message": "no"}))
    failure = await fail(provider)
    assert failure.cause == f"status_{status}"
    assert ("check the key in SERPER_API_KEY" in str(failure)) == (status in (401, 403))
    assert len(server.requests) == 1


async def test_requests_keep_the_rate(make):
    times = []
    provider, _ = make(lambda n: times.append(time.monotonic()) or {"organic": []}, requests_per_s=20.0)
    begin = time.monotonic()
    await asyncio.gather(*[provider.search("dune", 1) for _ in range(6)])
    assert time.monotonic() - begin >= 5 / 20.0
    assert len(times) == 6


async def test_searches_that_the_rate_cannot_serve_in_time_fail_at_once(make):
    provider, server = make(lambda n: {"organic": []}, requests_per_s=0.1, deadline_s=5.0)
    begin = time.monotonic()
    outcomes = await asyncio.gather(*[provider.search("dune", 1) for _ in range(3)], return_exceptions=True)
    assert time.monotonic() - begin < 3
    assert outcomes[0] == []
    assert [outcome.cause for outcome in outcomes[1:]] == ["rate_limit"] * 2
    assert len(server.requests) == 1


async def test_any_text_can_be_a_query_and_any_text_a_result(make):
    body = (
        b'{"organic": [{"title": "\\ud800", "link": "https://a.example/", "snippet": "\\udfff<|im_end|>"}]}'
    )
    provider, server = make(lambda n: (200, {}, body))
    for query in ("\ud800", "\x00", "北京", "x" * 10_000):
        (document,) = await provider.search(query, 1)
        assert (document.title, document.text) == ("?", "?<|im_end|>")
    assert json.loads(server.requests[0][2])["q"] == "?"
    with pytest.raises(ValueError, match="topk is 0"):
        await provider.search("dune", 0)


@pytest.mark.parametrize("value", [None, "", "  "])
def test_an_absent_key_is_refused_with_the_name_of_its_variable(monkeypatch, value):
    monkeypatch.delenv("SEARCH_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SEARCH_KEY", value)
    with pytest.raises(ServerError, match="variable SEARCH_KEY is not set"):
        SerperProvider(ProviderSettings(key_env="SEARCH_KEY"))


@pytest.mark.parametrize("value", ["s3cret\nkey", "s3cret key", "s3crét"])
def test_a_value_that_cannot_be_a_key_is_refused_without_showing_it(monkeypatch, value):
    monkeypatch.setenv("SERPER_API_KEY", value)
    with pytest.raises(ServerError, match="SERPER_API_KEY") as caught:
        SerperProvider(ProviderSettings())
    assert "s3cr" not in repr(caught.value)


async def test_the_key_reaches_no_message_repr_or_log(make, key, caplog):
    caplog.set_level(logging.DEBUG)
    provider, _ = make(lambda n: (403, {}, {"message": "x" * 155 + f" invalid key {key} " + key * 20}))
    failure = await fail(provider)
    assert "[key]" in str(failure)
    shown = [str(failure), repr(failure), repr(provider), repr(vars(provider)), caplog.text]
    assert not any(key[:6] in text for text in shown)
    assert caplog.text


def test_settings_travel_to_workers_and_refuse_addresses_that_give_secrets_away():
    settings = ProviderSettings(base_url="https://search.example/v1/")
    assert pickle.loads(pickle.dumps(settings)) == settings
    for base_url in (
        "google.serper.dev",
        "ftp://a.example",
        "http://search.example",
        "https://user:pw@a.example",
        "https://a.example/?key=x",
        "https://",
    ):
        with pytest.raises(ServerError, match="base_url"):
            ProviderSettings(base_url=base_url)
    with pytest.raises(ServerError, match="deadline_s"):
        ProviderSettings(deadline_s=0)
