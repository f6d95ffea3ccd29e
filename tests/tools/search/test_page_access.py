"""`/access`: pages by address, by title, and by the `url` that every hit has."""

import json

from tests.tools.search.test_server import Running
from tools.search.document import Document
from tools.search.index import bm25_index


async def test_pages_are_given_whole_by_title_and_by_address():
    pages = [
        Document("0", "Dune", "A novel."),
        Document("1", "Frank Herbert", "A writer.", "https://x.org/fh"),
        Document("2", "Dune", "Set on Arrakis."),
    ]
    async with Running(lambda: bm25_index(pages)) as server:
        response = await server.http.post(
            "/access", json={"urls": ["dune", "https://x.org/fh", "nowhere", ""]}
        )
        dune, herbert, nowhere, blank = response.json()["result"]
        assert dune["contents"] == '"Dune"\nA novel.\nSet on Arrakis.'
        assert (herbert["url"], herbert["title"]) == ("https://x.org/fh", "Frank Herbert")
        assert nowhere is None and blank is None


SHARED = [
    Document("0", "Dune", "A novel."),
    Document("1", "Dune", "Set on Arrakis."),
    Document("2", "DUNE", "Another thing."),
    Document("3", "", "A text without a title."),
    Document("4", " ", "Another text without a title."),
    Document("5", "C", "A language."),
    Document("6", "C++", "A larger language."),
    Document("7", "!!!", "A band."),
    Document("8", "Málaga 北京 \u202e", "A unicode text."),
    Document("9", "Malaga 北京", "A plain text."),
    Document("10", "Dune", "The article.", "https://x.org/dune?a=1#top"),
    Document("11", "https://x.org/dune?a=1#top", "A text with an address for a title."),
    Document("12", "id:3", "A text with a strange title."),
    Document("13", "3", "A text about three."),
    Document("14", "T" * 5_000, "A text with an endless title."),
    Document("15", "\ud800", "A text with a broken title."),
]


async def test_the_url_of_every_hit_opens_a_page_with_that_very_passage():
    async with Running(lambda: bm25_index(SHARED)) as server:
        words = ["novel arrakis thing", "text", "language band article", "dune", "c 3", "malaga"]
        found = (await server.retrieve(queries=words, topk=20, return_scores=False)).json()["result"]
        hits = {hit["id"]: hit for hits in found for hit in hits}
        assert set(hits) == {document.id for document in SHARED}
        assert all(isinstance(hit["url"], str) and hit["url"].strip() for hit in hits.values())
        urls = json.dumps({"urls": [hit["url"] for hit in hits.values()]})  # escapes the broken title
        pages = (await server.http.post("/access", content=urls)).json()["result"]
        for hit, page in zip(hits.values(), pages, strict=True):
            assert hit["text"] in page["text"].split("\n"), hit
            assert page["url"] == hit["url"]
        by_id = {hit["id"]: page for hit, page in zip(hits.values(), pages, strict=True)}
        assert by_id["0"]["text"] == "A novel.\nSet on Arrakis.", "passages of one page"
        assert by_id["6"]["text"] == "A larger language.", "not those of C"
        assert by_id["10"]["text"].startswith("The article.")
        assert hits["3"]["url"] == "id:3" and by_id["13"]["text"] == "A text about three."
