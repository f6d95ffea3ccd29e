"""Requests of many queries: taken whole, and a query that fails stands in its own place."""

import asyncio
import time

import pytest

from tests.tools.search.test_server import Running
from tools.search.settings import ServerSettings


async def test_a_whole_batch_of_search_r1_is_answered_in_one_request():
    async with Running(max_waiting=64) as server:  # an idle server takes it whatever the length of its queue
        response = await server.retrieve(queries=["dune", "herbert"] * 1_280, topk=3, return_scores=True)
        assert response.status_code == 200, response.text
        ids = [hits[0]["document"]["id"] for hits in response.json()["result"]]
        assert ids == ["0", "1"] * 1_280


def test_two_batches_of_search_r1_fit_the_limits_and_the_queue():
    settings = ServerSettings()
    assert settings.max_queries >= 2_560 and settings.max_waiting >= 2 * 2_560
    assert settings.max_body_bytes > 2_560 * settings.max_query_chars
    assert settings.max_results >= 2_560 * 3


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"queries": []}, {"result": []}),
        ({"queries": [], "topk": 3, "return_scores": True}, {"result": []}),
        ({"query_list": []}, {"result": []}),
    ],
)
async def test_an_empty_list_has_an_empty_result(body, answer):
    async with Running() as server:
        response = await server.retrieve(**body)
        assert (response.status_code, response.json()) == (200, answer)
        assert (await server.http.post("/access", json={"urls": []})).json() == {"result": []}


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("b" * 4_001, "queries.1: 4001 characters, at most 4000 are allowed"),
        ("x" * 1_000_000, "queries.1: 1000000 characters, at most 4000 are allowed"),
        ("", "queries.1: blank"),
        (" \n", "queries.1: blank"),
        (3, "queries.1: a string is expected, got int"),
        (None, "queries.1: a string is expected, got NoneType"),
        (["a"], "queries.1: a string is expected, got list"),
    ],
    ids=["long", "megabyte", "empty", "blank", "number", "null", "list"],
)
@pytest.mark.parametrize("alone", [False, True])
async def test_a_query_that_cannot_be_searched_has_its_error_in_its_place(query, error, alone):
    async with Running() as server:
        if alone:
            answer = (await server.retrieve(queries=[query])).json()
            assert answer == {"result": [[]], "errors": [error.replace("queries.1", "queries.0")]}
            return
        response = await server.retrieve(queries=["dune", query, "herbert"], topk=1, return_scores=True)
        assert response.status_code == 200
        answer = response.json()
        assert answer["errors"] == [None, error, None]
        assert [[hit["document"]["id"] for hit in hits] for hits in answer["result"]] == [["0"], [], ["1"]]
        text = (await server.http.get("/metrics")).text
        assert "mempo_search_failed_queries_total 1.0" in text
        assert "mempo_search_empty_queries_total 0.0" in text


async def test_an_address_that_cannot_be_opened_has_its_error_in_its_place():
    async with Running(max_pages=4) as server:
        answer = (
            await server.http.post("/access", json={"urls": ["dune", "x" * 5_000, 7, "nowhere"]})
        ).json()
        assert [page and page["title"] for page in answer["result"]] == ["Dune", None, None, None]
        assert [error is None for error in answer["errors"]] == [True, False, False, True]
        refused = await server.http.post("/access", json={"urls": ["dune"] * 5})
        assert (refused.status_code, refused.json()["error"]) == (422, "urls: 5 given, at most 4 are allowed")


async def test_a_query_that_breaks_the_index_fails_alone():
    class Brittle:
        def __len__(self):
            return 1

        def search_all(self, queries, topk):
            time.sleep(0.05)
            if "bad" in queries:
                raise RuntimeError("NaN")
            return [[] for _ in queries]

    async with Running(Brittle) as server:
        asked = [server.retrieve(queries=[query]) for query in ("a", "b", "bad", "c")]
        answers = await asyncio.gather(*asked)
        assert [answer.status_code for answer in answers] == [200, 200, 500, 200]
        assert answers[2].json() == {"error": "NaN"}
        batch = (await server.retrieve(queries=["a", "bad", "c"])).json()
        assert batch == {"result": [[], [], []], "errors": [None, "NaN", None]}
        assert (await server.retrieve(queries=["", "bad"])).status_code == 500, "nothing could be searched"


@pytest.mark.parametrize("query", ["dune\x00b", "\x00", "dune " * 700])
async def test_odd_queries_are_answered(query):
    async with Running() as server:
        response = await server.retrieve(queries=[query, "dune"])
        assert response.status_code == 200 and "errors" not in response.json()
        assert response.json()["result"][1][0]["id"] == "0"


async def test_a_lone_surrogate_is_answered_or_refused_but_breaks_nothing():
    async with Running() as server:
        body = b'{"queries": ["dune \\ud800"]}'
        response = await server.http.post("/retrieve", content=body)
        assert response.status_code in (200, 422)
        assert (await server.retrieve(queries=["dune"])).status_code == 200
