"""The cache: what is kept, what is not, and what a replay does."""

import asyncio
import json

import pytest
from pydantic import TypeAdapter

from tools.search.client import SearchFailure
from tools.search.settings import ServerError
from tools.search.web.cache import CacheKey, WebCache

WORDS = TypeAdapter(list[str])
KEY = CacheKey("search", "https://a.example", {"q": "dune 沙丘", "num": 3})


class Source:
    """Gives one answer after the other, or raises it, and counts."""

    def __init__(self, *answers):
        self.answers, self.asked = answers, 0

    async def __call__(self):
        self.asked += 1
        answer = self.answers[self.asked - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_an_answer_is_fetched_once_then_read(tmp_path):
    source = Source(["a", "\ud800".encode("utf-8", "replace").decode()])
    for _ in range(3):
        assert await WebCache(tmp_path).answer(KEY, WORDS, source) == ["a", "?"]
    assert source.asked == 1


async def test_files_are_sharded_whole_and_say_what_was_asked(tmp_path):
    await WebCache(tmp_path).answer(KEY, WORDS, Source(["a"]))
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path == tmp_path / KEY.digest[:2] / f"{KEY.digest}.json"
    entry = json.loads(path.read_text(encoding="utf-8"))
    assert entry["request"] == {"q": "dune 沙丘", "num": 3}
    assert entry["answer"] == ["a"]
    assert "沙丘" in path.read_text(encoding="utf-8")


def test_kind_base_url_and_request_make_the_key_and_field_order_does_not():
    request = {"num": 3, "q": "dune 沙丘"}
    assert CacheKey("search", "https://a.example", request).digest == KEY.digest
    others = [
        CacheKey("page", "https://a.example", request),
        CacheKey("search", "https://b.example", request),
        CacheKey("search", "https://a.example", request | {"num": 4}),
        CacheKey("search", "https://a.example", request | {"q": "\ud800"}),
    ]
    assert len({key.digest for key in [*others, KEY]}) == 5


async def test_empty_answers_are_kept_and_failures_are_not(tmp_path):
    source = Source(SearchFailure("timeout", "late"), [])
    cache = WebCache(tmp_path)
    with pytest.raises(SearchFailure, match="late"):
        await cache.answer(KEY, WORDS, source)
    assert list(tmp_path.iterdir()) == []
    assert [await cache.answer(KEY, WORDS, source) for _ in range(2)] == [[], []]
    assert source.asked == 2


async def test_a_replay_reads_and_never_fetches(tmp_path):
    source = Source(["a"])
    replay = WebCache(tmp_path, "replay")
    with pytest.raises(SearchFailure, match="dune 沙丘") as caught:
        await replay.answer(KEY, WORDS, source)
    assert caught.value.cause == "not_in_cache"
    assert source.asked == 0
    await WebCache(tmp_path).answer(KEY, WORDS, source)
    assert await replay.answer(KEY, WORDS, source) == ["a"]
    assert source.asked == 1


async def test_refresh_fetches_and_replaces(tmp_path):
    source = Source(["old"], ["new"])
    await WebCache(tmp_path).answer(KEY, WORDS, source)
    assert await WebCache(tmp_path, "refresh").answer(KEY, WORDS, source) == ["new"]
    assert await WebCache(tmp_path).answer(KEY, WORDS, source) == ["new"]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"answer": [3]}', "\udcff"])
async def test_a_damaged_file_is_named_and_not_taken_for_an_answer(tmp_path, content):
    cache = WebCache(tmp_path)
    await cache.answer(KEY, WORDS, Source(["a"]))
    path = tmp_path / KEY.digest[:2] / f"{KEY.digest}.json"
    path.write_text(content, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(SearchFailure, match=f"{KEY.digest}.json.*delete") as caught:
        await cache.answer(KEY, WORDS, Source(["b"]))
    assert caught.value.cause == "cache"


async def test_a_folder_that_cannot_be_written_is_a_failure_with_its_name(tmp_path):
    cache = WebCache(tmp_path / "file", "refresh")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SearchFailure, match="file") as caught:
        await cache.answer(KEY, WORDS, Source(["a"]))
    assert caught.value.cause == "cache"


async def test_many_writers_of_one_answer_leave_one_whole_file(tmp_path):
    cache = WebCache(tmp_path, "refresh")
    await asyncio.gather(*[cache.answer(KEY, WORDS, Source([str(n) * 10_000])) for n in range(20)])
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(json.loads(path.read_text())["answer"]) == 1


def test_an_unknown_mode_is_refused(tmp_path):
    with pytest.raises(ServerError, match="'read'; known are use, replay, refresh"):
        WebCache(tmp_path, "read")
