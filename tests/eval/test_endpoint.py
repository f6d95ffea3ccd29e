from __future__ import annotations

import json
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from eval.body import Usage
from eval.completion import parse_completion
from eval.endpoint import Endpoint, EndpointSettings
from eval.errors import EvalError
from eval.language_model import ChatModel, CompletionsModel, EndpointModel
from mempo.agents.base import Generation, RolloutError
from mempo.messages import MessageReader
from mempo.tokens import ChatTokens
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
    return tokens.first_prompt("Search.", "Question 2?") + tokens.generation_prompt_ids


def make_model(endpoint: Endpoint, api: str, question: str = "q2") -> EndpointModel:
    tokens = small_tokens()
    if api == "chat":
        return ChatModel(endpoint, tokens, MessageReader(tokens), question_id=question)
    return CompletionsModel(endpoint, tokens, question_id=question)


async def ask(fake: FakeEndpoint, api: str = "completions", **settings: Any) -> Generation:
    async with Endpoint(EndpointSettings(fake.url, MODEL, **settings)) as endpoint:
        return await make_model(endpoint, api).generate(prompt(), max_tokens=400, turn=0)


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


async def test_over_chat_the_text_becomes_the_ids_that_the_model_will_have_written(
    fake: FakeEndpoint,
) -> None:
    generation = await ask(fake, "chat")
    expected = fake.completion({"prompt": prompt()})["choices"][0]["token_ids"]
    assert generation == Generation(expected, [0.0] * len(expected))
    sent = fake.requests[0]
    assert fake.paths == ["/v1/chat/completions"]
    assert sent["messages"] == [
        {"role": "system", "content": "Search."},
        {"role": "user", "content": "Question 2?"},
    ]
    assert (sent["temperature"], sent["max_tokens"]) == (0, 400)
    assert not {"seed", "stop_token_ids", "continue_final_message"} & sent.keys()


async def test_a_cut_message_is_known_as_cut_whatever_its_length(fake: FakeEndpoint) -> None:
    fake.trouble = lambda number, prompt: (
        b'{"choices": [{"message": {"content": "<mem>half"}, "finish_reason": "length"}]}'
    )
    generation = await ask(fake, "chat")
    assert generation.truncated
    assert generation.token_ids == small_tokens().encode_own("<mem>half")


@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_the_api_keeps_its_own_count_of_tokens(fake: FakeEndpoint, api: str) -> None:
    async with Endpoint(EndpointSettings(fake.url, MODEL)) as endpoint:
        model = make_model(endpoint, api)
        assert model.usage is None
        for turn in range(2):
            await model.generate(prompt(), max_tokens=400, turn=turn)
    ids = fake.completion({"prompt": prompt()})["choices"][0]["token_ids"]
    told = fake.message(fake.requests[0])["usage"] if api == "chat" else None
    words = (told["prompt_tokens"], told["completion_tokens"]) if told else (len(prompt()), len(ids))
    assert model.usage == Usage(2 * words[0], 2 * words[1])


@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_sampling_has_a_seed_of_its_own_for_each_question_and_turn(
    fake: FakeEndpoint, api: str
) -> None:
    settings = EndpointSettings(fake.url, MODEL, temperature=0.7, seed=3)
    async with Endpoint(settings) as endpoint:
        for question, turn in (("q2", 0), ("q2", 1), ("q3", 0), ("q2", 0)):
            await make_model(endpoint, api, question).generate(prompt(), max_tokens=400, turn=turn)
    seeds = [request["seed"] for request in fake.requests]
    assert len(set(seeds[:3])) == 3
    assert seeds[3] == seeds[0]


@pytest.mark.parametrize("api", ["completions", "chat"])
@pytest.mark.parametrize("trouble", [429, 500, 503, b'{"choices": [{"tok'])
async def test_a_passing_trouble_is_retried(fake: FakeEndpoint, trouble: int | bytes, api: str) -> None:
    fake.trouble = lambda number, prompt: trouble if number < 2 else None
    assert (await ask(fake, api)).token_ids
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
    ],
)
@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_a_lasting_trouble_is_named(
    fake: FakeEndpoint, trouble: int | bytes, cause: str, requests: int, api: str
) -> None:
    fake.trouble = lambda number, prompt: trouble
    with pytest.raises(RolloutError) as caught:
        await ask(fake, api, retries=2)
    assert caught.value.cause == cause
    assert len(fake.requests) == requests


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b'{"choices": [{"text": "hello", "logprobs": null}]}', "no_token_ids"),
        (b'{"choices": [{"token_ids": [5], "logprobs": null}]}', "schema"),
        (b'{"choices": [{"token_ids": [5], "logprobs": {"token_logprobs": [NaN]}}]}', "schema"),
        (b'{"choices": [{"token_ids": [], "logprobs": {"token_logprobs": []}}]}', "schema"),
        (b'{"choices": [{"prompt_token_ids": [1], "token_ids": [5]}]}', "prompt_changed"),
    ],
)
async def test_an_answer_that_is_no_completion_is_named(fake: FakeEndpoint, body: bytes, cause: str) -> None:
    fake.trouble = lambda number, prompt: body
    with pytest.raises(RolloutError) as caught:
        await ask(fake)
    assert caught.value.cause == cause


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b'{"choices": [{"text": "hello"}]}', "schema"),
        (b'{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}', "no_text"),
        (
            b'{"choices": [{"message": {"content": " ", "reasoning": "long"}, "finish_reason": "length"}]}',
            "no_text",
        ),
        (b'{"choices": [{"message": {"content": ""}, "finish_reason": "length"}]}', "no_text"),
        (
            b'{"choices": [{"message": {"content": "", "reasoning_content": "x"}, "finish_reason": "stop"}]}',
            "no_text",
        ),
        (
            b'{"choices": [{"message": {"content": null}, "finish_reason": "tool_calls"}]}',
            "finish_tool_calls",
        ),
        (
            b'{"choices": [{"message": {"content": "x"}, "finish_reason": "content_filter"}]}',
            "finish_content_filter",
        ),
        # a tool parser took the reply, or a part of it
        (
            b'{"choices": [{"message": {"content": "", "tool_calls": [{"id": 1}]}, "finish_reason": "stop"}]}',
            "tool_calls",
        ),
        (
            b'{"choices": [{"message": {"content": "I look.", "tool_calls": [{}]}, "finish_reason": "stop"}]}',
            "tool_calls",
        ),
        (
            b'{"choices": [{"message": {"content": "", "function_call": {"name": "f"}}, "finish_reason": "stop"}]}',
            "tool_calls",
        ),
        (
            b'{"choices": [{"message": {"content": null, "refusal": "I cannot."}, "finish_reason": "stop"}]}',
            "refusal",
        ),
        (
            b'{"choices": [{"message": {"content": [{"type": "thinking", "thinking": []}]}, "finish_reason": "stop"}]}',
            "no_text",
        ),
        (b'{"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]}', "no_text"),
    ],
)
async def test_an_answer_that_is_no_message_is_named(fake: FakeEndpoint, body: bytes, cause: str) -> None:
    fake.trouble = lambda number, prompt: body
    with pytest.raises(RolloutError) as caught:
        await ask(fake, "chat")
    assert caught.value.cause == cause


@pytest.mark.parametrize("reason", ["abort", "error"])
@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_an_answer_that_the_server_broke_off_is_asked_for_again(
    fake: FakeEndpoint, api: str, reason: str
) -> None:
    choice = {"finish_reason": reason, "message": {"content": "half"}, "token_ids": [5], "logprobs": None}
    broken = json.dumps({"choices": [choice]}).encode()
    fake.trouble = lambda number, prompt: broken if number < 1 else None
    assert len((await ask(fake, api)).token_ids) > 1
    fake.trouble = lambda number, prompt: broken
    with pytest.raises(RolloutError) as caught:
        await ask(fake, api, retries=1)
    assert caught.value.cause == f"finish_{reason}"


async def test_a_message_in_parts_is_their_text(fake: FakeEndpoint) -> None:
    parts = [
        {"type": "text", "text": "a "},
        {"type": "thinking", "thinking": "?"},
        {"type": "text", "text": "b"},
    ]
    body = {"choices": [{"message": {"content": parts, "tool_calls": []}, "finish_reason": "stop"}]}
    fake.trouble = lambda number, prompt: json.dumps(body).encode()
    tokens = small_tokens()
    assert (await ask(fake, "chat")).token_ids == [*tokens.encode_own("a b"), tokens.turn_end_id]


async def test_a_lone_surrogate_in_a_reply_is_the_replacement_character(fake: FakeEndpoint) -> None:
    fake.trouble = lambda number, prompt: (
        b'{"choices": [{"message": {"content": "a\\ud800b \\ud83d\\ude00"}, "finish_reason": "stop"}]}'
    )
    tokens = small_tokens()
    assert (await ask(fake, "chat")).token_ids == [
        *tokens.encode_own("a\ufffdb \U0001f600"),
        tokens.turn_end_id,
    ]


def http_date(seconds: float) -> str:
    return formatdate(time.time() + seconds, usegmt=True)


@pytest.mark.parametrize("given", ["1", "date"])
async def test_the_wait_that_a_server_asks_for_is_kept(fake: FakeEndpoint, given: str) -> None:
    fake.retry_after = http_date(1.9) if given == "date" else given
    fake.trouble = lambda number, prompt: 429 if number == 0 else None
    started = time.monotonic()
    await ask(fake)
    assert 0.8 < time.monotonic() - started < 10


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("given", ["3600", "inf", "date"])
async def test_a_wait_past_the_deadline_fails_at_once_and_is_called_so(
    fake: FakeEndpoint, given: str, status: int
) -> None:
    fake.retry_after = http_date(3600) if given == "date" else given
    fake.trouble = lambda number, prompt: status
    started = time.monotonic()
    with pytest.raises(
        RolloutError, match=rf"HTTP {status}: the server asks to wait .* s, past the deadline of 30 s"
    ) as caught:
        await ask(fake, deadline_s=30.0)
    assert caught.value.cause == "retry_after"
    assert (len(fake.requests), time.monotonic() - started < 10) == (1, True)


async def test_a_pause_past_the_deadline_is_not_begun_and_its_cause_is_the_last_failure(
    fake: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.endpoint.FIRST_PAUSE_S", 100.0)
    monkeypatch.setattr("eval.endpoint.LONGEST_PAUSE_S", 100.0)
    fake.trouble = lambda number, prompt: 500
    started = time.monotonic()
    with pytest.raises(RolloutError) as caught:
        await ask(fake, deadline_s=20.0)
    assert (caught.value.cause, time.monotonic() - started < 10) == ("status_500", True)


@pytest.mark.parametrize("over", [-1, 0, 1, 300])
async def test_over_chat_a_reply_ends_at_the_cap_in_our_tokens_and_says_so(
    fake: FakeEndpoint, over: int
) -> None:
    tokens = small_tokens()
    said = tokens.encode_inert("a b " * 600)[: 399 + over]  # and the end of the turn
    fake.said = lambda text: tokens.decode(said)  # type: ignore[method-assign]
    generation = await ask(fake, "chat")
    assert generation.token_ids == [*said, tokens.turn_end_id][:400]
    assert len(generation.logprobs) == len(generation.token_ids)
    assert generation.truncated == (over > 0)


@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_a_model_that_ends_its_turn_at_once_said_nothing(fake: FakeEndpoint, api: str) -> None:
    fake.said = lambda text: ""  # type: ignore[method-assign]
    assert (await ask(fake, api)).token_ids == [small_tokens().turn_end_id]


async def test_a_request_stops_where_the_models_folder_says(fake: FakeEndpoint, tmp_path: Path) -> None:
    second = small_tokens().added["<|endoftext|>"]
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [second]}))
    tokens = ChatTokens(small_tokens().tokenizer, model=tmp_path)
    async with Endpoint(EndpointSettings(fake.url, MODEL)) as endpoint:
        await CompletionsModel(endpoint, tokens, question_id="q").generate(prompt(), max_tokens=400, turn=0)
    assert fake.requests[0]["stop_token_ids"] == sorted([second, tokens.turn_end_id])


@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_a_hanging_request_ends_at_its_deadline(fake: FakeEndpoint, api: str) -> None:
    fake.trouble = lambda number, prompt: 20.0
    started = time.monotonic()
    with pytest.raises(RolloutError) as caught:
        await ask(fake, api, deadline_s=0.3)
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
    found, usage = parse_completion(body, prompt_ids=[1], max_tokens=2)
    assert found == Generation([7, 9], [-1.0, -0.5])
    assert usage is None


def test_more_tokens_than_asked_for_are_refused() -> None:
    logprobs = {"tokens": ["token_id:7", "token_id:9"], "token_logprobs": [-1, -0.5]}
    body = json.dumps({"choices": [{"logprobs": logprobs}]}).encode()
    with pytest.raises(RolloutError, match="2 tokens"):
        parse_completion(body, prompt_ids=[1], max_tokens=1)
