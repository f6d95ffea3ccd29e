"""One test per client of another project: its request as it sends it, its answer as it reads it."""

import pytest

from tests.tools.search.test_server import PAGES, Running

CONTENTS = '"Dune"\nA novel by Frank Herbert.'


async def post(server, path="/retrieve", **body):
    response = await server.http.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_search_r1_with_scores():
    async with Running() as server:
        answer = await post(server, queries=["dune", "herbert"], topk=1, return_scores=True)
        hit = answer["result"][0][0]
        assert hit["document"]["contents"] == CONTENTS and hit["document"]["id"] == "0"
        assert hit["score"] > 0
        assert len(answer["result"]) == 2


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_search_r1_without_scores_for_any_number_of_queries(count):
    async with Running() as server:
        result = (await post(server, queries=["herbert"] * count, topk=2, return_scores=False))["result"]
        assert [[document["id"] for document in hits] for hits in result] == [["1", "0"]] * count
        assert all("score" not in document for hits in result for document in hits)


async def test_agent_lightning_reads_title_text_and_contents_and_may_leave_scores_open():
    async with Running() as server:
        assert (await server.http.get("/healthz")).status_code == 200
        hit = (await post(server, queries=["dune"], topk=1))["result"][0][0]
        document = hit["document"]
        assert (document["title"], document["text"]) == ("Dune", "A novel by Frank Herbert.")
        assert document["contents"] == CONTENTS and hit["score"] > 0
        assert hit["contents"] == CONTENTS, "for a client that leaves scores open and expects none"


async def test_skyrl_asks_one_query():
    async with Running() as server:
        answer = await post(server, query="dune", topk=1, return_scores=True)
        assert answer["result"][0][0]["document"]["contents"] == CONTENTS


async def test_slime_asks_without_scores():
    async with Running() as server:
        answer = await post(server, queries=["dune"], topk=3, return_scores=False)
        assert answer["result"][0][0]["contents"] == CONTENTS


@pytest.mark.parametrize("name", ["top_k", "k"])
async def test_rllm_asks_one_query_and_reads_a_flat_list(name):
    async with Running() as server:
        assert (await server.http.get("/health")).status_code == 200
        results = (await post(server, query="herbert", **{name: 1}))["results"]
        assert [result["id"] for result in results] == ["1"]
        assert results[0]["content"] == results[0]["contents"] and results[0]["score"] > 0


async def test_query_list():
    async with Running() as server:
        answer = await post(server, query_list=["dune", "herbert"], top_k=1)
        assert [hits[0]["id"] for hits in answer["result"]] == ["0", "1"]


async def test_asearcher_searches_and_then_opens_pages():
    async with Running() as server:
        document = (await post(server, queries=["dune"], topk=1, return_scores=False))["result"][0][0]
        assert document["contents"] == CONTENTS
        pages = (await post(server, "/access", urls=[document["url"], "https://nowhere.org"]))["result"]
        assert pages[0]["contents"] == CONTENTS and pages[1] is None


LONG = "x" * 5_000
# How each client reads its answer: the texts of one query's results.
READERS = {
    "search_r1": (
        {"queries": ["dune", LONG], "topk": 1, "return_scores": True},
        lambda answer: [[hit["document"]["contents"] for hit in hits] for hits in answer["result"]],
    ),
    "slime": (
        {"queries": [LONG], "topk": 1, "return_scores": False},
        lambda answer: [[hit["contents"] for hit in answer["result"][0]]],
    ),
    "agent_lightning": (
        {"queries": ["dune", LONG], "topk": 1},
        lambda answer: [[hit["document"]["contents"] for hit in hits] for hits in answer["result"]],
    ),
    "skyrl": (
        {"query": LONG, "topk": 1, "return_scores": True},
        lambda answer: [[hit["document"]["contents"] for hit in hits] for hits in answer["result"]],
    ),
    "rllm": (
        {"query": LONG, "top_k": 1},
        lambda answer: [[hit["content"] for hit in answer["results"]]],
    ),
    "asearcher": (
        {"queries": ["dune", LONG], "topk": 1, "return_scores": False},
        lambda answer: [[hit["contents"] for hit in hits if hit["url"]] for hits in answer["result"]],
    ),
}


@pytest.mark.parametrize("client", READERS)
async def test_a_query_that_cannot_be_searched_looks_empty_to_its_client_and_harms_no_other(client):
    body, read = READERS[client]
    async with Running() as server:
        answer = await post(server, **body)
        read_texts = read(answer)
        assert read_texts[-1] == [], "the long one"
        assert read_texts[:-1] == [[CONTENTS]] * (len(read_texts) - 1)
        assert answer["errors"][-1].endswith("5000 characters, at most 4000 are allowed")


async def test_openapi_describes_the_bodies():
    async with Running() as server:
        paths = (await server.http.get("/openapi.json")).json()["paths"]
        fields = paths["/retrieve"]["post"]["requestBody"]["content"]["application/json"]["schema"][
            "properties"
        ]
        assert {"queries", "query", "query_list", "topk", "top_k", "k", "return_scores"} <= set(fields)
        assert len(PAGES) == 2
