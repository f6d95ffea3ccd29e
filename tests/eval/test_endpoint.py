from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from eval.completion import parse_completion
from eval.endpoint import CompletionsModel, Endpoint, EndpointSettings
from eval.errors import EvalError
from mempo.agents.base import Generation, RolloutError
from tests.eval.support import MODEL, FakeEndpoint, serving
from tests.mempo.support import small_tokens


@pytest.fixture
def fake() -> Iterator[FakeEndpoint]:
    with serving(FakeEndpoint()) as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.endpoint.FIRST_PAUSE_S", 0.01)


def prompt() -> list[int]:
    tokens = small_tokens()
    return tokens.first_prompt(None, "Question 2?") + tokens.generation_prompt_ids


async def ask(fake: FakeEndpoint, **settings: Any) -> Generation:
    async with Endpoint(EndpointSettings(fake.url, MODEL, **settings)) as endpoint:
        model = CompletionsModel(endpoint, stop_token_ids=small_tokens().stop_token_ids, question_id="q2")
        return await model.generate(prompt(), max_tokens=400, turn=0)


async def test_token_ids_come_back_as_generated_and_the_request_is_greedy(fake: FakeEndpoint) -> None:
    generation = await ask(fake)
    expected = fake.completion({"prompt": prompt()})["choices"][0]["token_ids"]
    assert generation.token_ids == expected
    assert generation.logprobs == [-0.1] * len(expected)
    sent = fake.requests[0]
    assert sent["prompt"] == prompt()
    assert sent["temperature"] == 0
    assert sent["max_tokens"] == 400
    assert sent["stop_token_ids"] == small_tokens().stop_token_ids
    assert "seed" not in sent


async def test_sampling_has_a_seed_of_its_own_for_each_question_and_turn(fake: FakeEndpoint) -> None:
    settings = EndpointSettings(fake.url, MODEL, temperature=0.7, seed=3)
    async with Endpoint(settings) as endpoint:
        for question, turn in (("q2", 0), ("q2", 1), ("q3", 0), ("q2", 0)):
            model = CompletionsModel(endpoint, stop_token_ids=[], question_id=question)
            await model.generate(prompt(), max_tokens=400, turn=turn)
    seeds = [request["seed"] for request in fake.requests]
    assert len(set(seeds[:3])) == 3
    assert seeds[3] == seeds[0]


@pytest.mark.parametrize("trouble", [429, 500, 503, b'{"choices": [{"tok'])
async def test_a_passing_trouble_is_retried(fake: FakeEndpoint, trouble: int | bytes) -> None:
    fake.trouble = lambda number, prompt: trouble if number < 2 else None
    assert (await ask(fake)).token_ids
    assert len(fake.requests) == 3


@pytest.mark.parametrize(
    ("trouble", "cause", "requests"),
    [
        (429, "status_429", 3),
        (500, "status_500", 3),
        (400, "status_400", 1),  # the same request would be refused again
        (b'{"choices": [{"tok', "not_json", 3),
        (b'{"choices": []}', "schema", 1),
        (b'{"completions": []}', "schema", 1),
        (b"[]", "schema", 1),
        (b'{"choices": [{"text": "hello", "logprobs": null}]}', "no_token_ids", 1),
        (b'{"choices": [{"token_ids": [5], "logprobs": null}]}', "schema", 1),
        (b'{"choices": [{"token_ids": [5], "logprobs": {"token_logprobs": [NaN]}}]}', "schema", 1),
        (b'{"choices": [{"token_ids": [], "logprobs": {"token_logprobs": []}}]}', "schema", 1),
        (b'{"choices": [{"prompt_token_ids": [1], "token_ids": [5]}]}', "prompt_changed", 1),
    ],
)
async def test_a_lasting_trouble_is_named(
    fake: FakeEndpoint, trouble: int | bytes, cause: str, requests: int
) -> None:
    fake.trouble = lambda number, prompt: trouble
    with pytest.raises(RolloutError) as caught:
        await ask(fake, retries=2)
    assert caught.value.cause == cause
    assert len(fake.requests) == requests


async def test_a_hanging_request_ends_at_its_deadline(fake: FakeEndpoint) -> None:
    fake.trouble = lambda number, prompt: 20.0
    started = time.monotonic()
    with pytest.raises(RolloutError) as caught:
        await ask(fake, deadline_s=0.3)
    assert caught.value.cause == "timeout"
    assert time.monotonic() - started < 10


async def test_nobody_at_the_address(fake: FakeEndpoint) -> None:
    fake.url = "http://127.0.0.1:9"
    with pytest.raises(RolloutError) as caught:
        await ask(fake, retries=1)
    assert caught.value.cause == "connection"


async def test_the_check_names_a_wrong_model_and_a_dead_address(fake: FakeEndpoint) -> None:
    async with Endpoint(EndpointSettings(fake.url, MODEL)) as endpoint:
        await endpoint.check()
    async with Endpoint(EndpointSettings(fake.url, "other")) as endpoint:
        with pytest.raises(EvalError, match="serves fake"):
            await endpoint.check()
    async with Endpoint(EndpointSettings("http://127.0.0.1:9/v1", MODEL)) as endpoint:
        with pytest.raises(EvalError, match="does not answer"):
            await endpoint.check()


async def test_the_api_key_comes_from_the_environment(
    fake: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "abc")
    await ask(fake, api_key_env="SOME_KEY")
    assert fake.headers[0]["Authorization"] == "Bearer abc"


def test_ids_spelled_in_the_log_probs_are_read_where_there_is_no_other_list() -> None:
    logprobs = {"tokens": ["token_id:7", "token_id:9"], "token_logprobs": [-1, -0.5]}
    body = json.dumps({"choices": [{"logprobs": logprobs}]}).encode()
    assert parse_completion(body, prompt_ids=[1], max_tokens=2) == Generation([7, 9], [-1.0, -0.5])


def test_more_tokens_than_asked_for_are_refused() -> None:
    logprobs = {"tokens": ["token_id:7", "token_id:9"], "token_logprobs": [-1, -0.5]}
    body = json.dumps({"choices": [{"logprobs": logprobs}]}).encode()
    with pytest.raises(RolloutError, match="2 tokens"):
        parse_completion(body, prompt_ids=[1], max_tokens=1)
