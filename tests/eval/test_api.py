"""Which API an evaluation uses is found out once, and never from a trouble that may pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval.api import TOKEN_IDS, Api, choose_api, recorded_api
from eval.endpoint import Endpoint, EndpointSettings
from eval.errors import EvalError
from eval.sample_log import differences
from tests.eval.support import MODEL, FakeEndpoint, serving
from tests.mempo.support import small_tokens


@pytest.fixture
def fake() -> Iterator[FakeEndpoint]:
    with serving(FakeEndpoint()) as endpoint:
        yield endpoint


async def choose(fake: FakeEndpoint, asked: str = "auto") -> Api:
    settings = EndpointSettings(fake.url, MODEL, retries=0, deadline_s=5)
    async with Endpoint(settings) as endpoint:
        return await choose_api(endpoint, asked, small_tokens())


async def test_an_endpoint_that_returns_token_ids_gets_them(fake: FakeEndpoint) -> None:
    assert await choose(fake) == TOKEN_IDS
    assert [request["max_tokens"] for request in fake.requests] == [1]


async def test_an_endpoint_without_completions_gets_messages(fake: FakeEndpoint) -> None:
    fake.takes_ids = False
    found = await choose(fake)
    assert found.ran == "chat"
    assert "404" in found.why


async def test_an_endpoint_that_returns_text_only_gets_messages(fake: FakeEndpoint) -> None:
    fake.trouble = lambda number, prompt: b'{"choices": [{"text": "Hello", "logprobs": null}]}'
    found = await choose(fake)
    assert found.ran == "chat"
    assert found.why.startswith("no_token_ids")


@pytest.mark.parametrize("trouble", [429, 503, 401, b'{"choices": ['])
async def test_a_trouble_decides_nothing(fake: FakeEndpoint, trouble: int | bytes) -> None:
    fake.trouble = lambda number, prompt: trouble
    with pytest.raises(EvalError, match="or say --api"):
        await choose(fake)


@pytest.mark.parametrize("asked", ["completions", "chat"])
async def test_what_is_asked_for_is_not_tried(fake: FakeEndpoint, asked: str) -> None:
    assert (await choose(fake, asked)).ran == asked
    assert not fake.requests


async def test_an_unknown_name_is_refused(fake: FakeEndpoint) -> None:
    with pytest.raises(EvalError, match="write auto, completions, chat"):
        await choose(fake, "messages")


def test_the_api_makes_two_runs_differ_and_its_reason_does_not(tmp_path: Path) -> None:
    runs = [
        {"api": ran, "remarks": {"api": why}}
        for ran, why in (("chat", "a"), ("chat", "b"), ("completions", "a"))
    ]
    assert differences(runs[0], runs[1]) == []
    assert differences(runs[0], runs[2]) == ["api: 'chat' → 'completions'"]
    assert recorded_api(tmp_path) is None
    (tmp_path / "settings.json").write_text(json.dumps(runs[0]))
    assert recorded_api(tmp_path) == Api("chat", "a")
