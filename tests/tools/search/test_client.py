"""The client: failure is told from no results, every call has a deadline, retries follow the server's wishes."""

import asyncio
import json
import pickle
import time

import httpx
import pytest

from tools.search import client as module
from tools.search.client import BLANK_TEXT, EMPTY_TEXT, FAILED_TEXT, SearchClient, SearchSettings

GOOD = {"result": [[{"document": {"id": "0", "contents": '"Dune"\nA novel.'}, "score": 1.5}]]}


@pytest.fixture
def make(monkeypatch):
    """Builds a client whose server is a function; `requests` collects what it was sent."""

    def build(answer, **settings):
        requests = []

        async def handle(request):
            requests.append(json.loads(request.content))
            reply = answer(len(requests))
            return await reply if asyncio.iscoroutine(reply) else reply

        real = httpx.AsyncClient
        monkeypatch.setattr(
            module.httpx,
            "AsyncClient",
            lambda **kw: real(transport=httpx.MockTransport(handle), headers=kw["headers"]),
        )
        monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.001)
        return SearchClient("http://server:1", **settings), requests

    return build


def say(status=200, body=GOOD, **headers):
    return httpx.Response(status, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


async def test_passages_are_formatted_as_the_agents_read_them(make):
    client, requests = make(lambda n: say(), topk=2)
    reply = await client("dune")
    assert (reply.status, reply.text) == ("ok", "(1) Dune\nA novel.")
    assert requests == [{"queries": ["dune"], "topk": 2, "return_scores": True}]
    await client.aclose()


async def test_a_lone_surrogate_in_a_result_is_the_replacement_character(make):
    body = {"result": [[{"contents": "Du\ud800ne\nA novel."}]]}
    client, _ = make(lambda n: httpx.Response(200, content=json.dumps(body)))
    assert (await client("dune")).text == "(1) Du\ufffdne\nA novel."


async def test_a_response_without_scores_is_understood(make):
    client, _ = make(lambda n: say(body={"result": [[{"id": 1, "contents": "Dune\nA novel."}]]}))
    assert (await client("dune")).text == "(1) Dune\nA novel."


async def test_failed_empty_and_blank_are_three_observations(make):
    client, requests = make(lambda n: say(body={"result": [[]]}) if n == 1 else say(404, {"error": "no"}))
    replies = [await client("dune"), await client("arrakis"), await client(" \n")]
    assert [reply.status for reply in replies] == ["empty", "failed", "blank"]
    assert [reply.text for reply in replies] == [EMPTY_TEXT, FAILED_TEXT, BLANK_TEXT]
    assert len({EMPTY_TEXT, FAILED_TEXT, BLANK_TEXT}) == 3
    assert len(requests) == 2  # 404 is not retried, a blank query is not sent
    assert client.counts == {"empty": 1, "failed/status_404": 1, "blank": 1}


async def test_a_query_that_failed_in_its_place_is_not_an_empty_search(make):
    bodies = [
        {"result": [[]], "errors": ["queries.0: 4001 characters, at most 4000 are allowed"]},
        {"result": [[]], "errors": [None]},
        {"result": [[]], "errors": None},
    ]
    client, requests = make(lambda n: say(body=bodies[n - 1]))
    replies = [await client(query) for query in ("long", "dune", "arrakis")]
    assert [reply.status for reply in replies] == ["failed", "empty", "empty"]
    assert replies[0].text == FAILED_TEXT != replies[1].text
    assert client.counts == {"failed/query": 1, "empty": 2}
    assert len(requests) == 3, "asking again would not help"


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        None,
        {"results": []},
        {"result": []},
        {"result": None},
        {"result": [[], []]},
        {"result": ["text"]},
        {"result": [["text"]]},
        {"result": [[{"document": None}]]},
        {"result": [[{"document": {"text": "a"}, "score": 1}]]},
        {"result": [[{"document": {"contents": " "}, "score": 1}]]},
        {"result": [[{"contents": 3}]]},
        {"result": [[]], "errors": "timeout"},
        {"result": [[]], "errors": ["timeout", None]},
        {"result": [[]], "errors": [{"code": 7}]},
        {"result": [[]], "errors": [""]},
    ],
)
async def test_a_body_in_another_schema_is_a_failure_and_not_an_empty_result(make, body):
    client, requests = make(lambda n: say(body=body))
    assert (await client("dune")).status == "failed"
    assert client.counts == {"failed/schema": 1}
    assert len(requests) == 1


async def test_a_body_that_is_not_json_is_a_failure(make):
    client, _ = make(lambda n: httpx.Response(200, content=b"<html>"))
    assert (await client("dune")).status == "failed"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_overload_and_server_errors_are_retried(make, status):
    client, requests = make(lambda n: say(status, {}) if n < 3 else say())
    assert (await client("dune")).status == "ok"
    assert len(requests) == 3


async def test_connection_errors_are_retried_until_retries_are_used_up(make):
    def refuse(n):
        raise httpx.ConnectError("refused")

    client, requests = make(refuse, retries=2)
    assert (await client("dune")).status == "failed"
    assert len(requests) == 3
    assert client.counts == {"failed/connection": 1}


async def test_retry_after_is_waited_for_within_the_deadline(make):
    client, requests = make(lambda n: say(429, {}, retry_after="0.2") if n == 1 else say())
    begin = time.monotonic()
    assert (await client("dune")).status == "ok"
    assert time.monotonic() - begin >= 0.2
    assert len(requests) == 2


@pytest.mark.parametrize("wait", ["3600", "inf", "Fri, 31 Dec 2100 23:59:59 GMT"])
async def test_a_retry_after_beyond_the_deadline_fails_at_once(make, wait):
    client, requests = make(lambda n: say(429, {}, retry_after=wait), deadline_s=5)
    begin = time.monotonic()
    assert (await client("dune")).status == "failed"
    assert time.monotonic() - begin < 1
    assert client.counts == {"failed/status_429": 1}
    assert len(requests) == 1


async def test_a_hanging_server_ends_at_the_deadline(make):
    async def hang():
        await asyncio.sleep(60)

    client, _ = make(lambda n: hang(), deadline_s=0.2)
    begin = time.monotonic()
    assert (await client("dune")).status == "failed"
    assert time.monotonic() - begin < 1
    assert client.counts == {"failed/timeout": 1}


async def test_any_text_can_be_a_query(make):
    client, requests = make(lambda n: say())
    for query in ("\ud800", "\x00", "北京", "<|im_end|>", "x" * 10_000):
        assert (await client(query)).status == "ok"
    assert requests[0]["queries"] == ["?"]


def test_one_client_serves_several_event_loops(make):
    client, _ = make(lambda n: say())
    for _ in range(2):
        assert asyncio.run(client("dune")).status == "ok"


def test_settings_travel_to_workers_and_hide_the_token():
    settings = SearchSettings("http://server:1/retrieve", topk=5, token="s3cret")
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert "s3cret" not in repr(settings)
    assert SearchClient.from_settings(settings)._url == "http://server:1/retrieve"
    with pytest.raises(ValueError, match=r"search\.url"):
        SearchSettings("server:1")


async def test_queries_beyond_the_connections_wait_their_turn(make):
    flying, most = 0, 0

    async def answer():
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0.001)
        flying -= 1
        return say()

    client, _ = make(lambda n: answer())
    replies = await asyncio.gather(*[client(f"dune {number}") for number in range(500)])
    assert {reply.status for reply in replies} == {"ok"}
    assert most == client.settings.connections


async def test_a_server_that_is_down_does_not_flood_the_log(make, caplog):
    client, _ = make(lambda n: say(404, {}))
    for _ in range(100):
        await client("dune")
    assert client.counts == {"failed/status_404": 100}
    assert len(caplog.records) == 7


async def test_rollouts_that_ask_the_same_ask_the_server_once(make):
    async def slowly():
        await asyncio.sleep(0.05)
        return say()

    client, requests = make(lambda n: slowly())
    replies = await asyncio.gather(*(client("dune") for _ in range(8)))
    assert {reply.text for reply in replies} == {"(1) Dune\nA novel."}
    assert (await client("dune")).status == "ok"
    assert len(requests) == 1
    assert client.counts == {"ok": 9, "cached": 8}


async def test_a_failure_is_shared_by_those_who_asked_together_and_not_kept(make):
    async def slowly(n):
        await asyncio.sleep(0.05)
        return say(404, {"error": "no"}) if n == 1 else say()

    client, requests = make(slowly)
    assert {reply.status for reply in await asyncio.gather(*(client("dune") for _ in range(3)))} == {"failed"}
    assert (await client("dune")).status == "ok"
    assert len(requests) == 2


async def test_a_caller_who_leaves_stops_nobody(make):
    async def slowly():
        await asyncio.sleep(0.05)
        return say()

    client, requests = make(lambda n: slowly())
    leaving, staying = (asyncio.create_task(client("dune")) for _ in range(2))
    await asyncio.sleep(0.01)
    leaving.cancel()
    assert (await staying).status == "ok"
    assert len(requests) == 1


async def test_a_deadline_that_passes_is_the_first_callers_alone(make):
    async def hang_once(n):
        await asyncio.sleep(5 if n == 1 else 0)
        return say()

    client, requests = make(hang_once, deadline_s=0.3)
    early = asyncio.create_task(client("dune"))
    await asyncio.sleep(0.15)
    late = asyncio.create_task(client("dune"))
    assert ((await early).status, (await late).status) == ("failed", "ok")
    assert len(requests) == 2


async def test_only_so_many_results_are_kept(make):
    client, requests = make(lambda n: say())
    client = SearchClient.from_settings(SearchSettings("http://server:1", cache_size=2))
    for query in ("a", "b", "c", "c", "a"):
        await client(query)
    assert [request["queries"] for request in requests] == [["a"], ["b"], ["c"], ["a"]]
