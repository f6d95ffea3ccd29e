"""Log-probs of prompt tokens from `/v1/completions`: a scorer of memories for a model behind an endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import isfinite
from typing import Any

import torch

from eval.body import BodyError, is_list_of, read_choice
from eval.completion import check_prompt, spelled_ids
from eval.endpoint import Endpoint, EndpointSettings
from eval.errors import EvalError
from mempo.agents.base import RolloutError
from mempo.probe import Probe

Scores = list[torch.Tensor] | RolloutError


class EndpointScorer:
    """Scores probes with the model behind an endpoint, one request per distinct sequence, at temperature 1.

    vLLM's log-probs of a prompt are those of the model's own distribution, whatever the request's temperature.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings = settings

    def answer_logprobs(self, probes: Sequence[Sequence[Probe]]) -> list[Scores]:
        """For every trajectory one tensor per probe ([A], natural log), or what went wrong with it.

        Raises:
            EvalError: if the endpoint is gone, or returns no log-probs of prompts.
        """
        return asyncio.run(self._all(probes))

    async def _all(self, probes: Sequence[Sequence[Probe]]) -> list[Scores]:
        free = asyncio.Semaphore(self._settings.connections)
        async with Endpoint(self._settings) as endpoint:
            found = await asyncio.gather(*(self._trajectory(endpoint, free, each) for each in probes))
            if any(isinstance(scores, RolloutError) and scores.cause == "connection" for scores in found):
                await endpoint.check()  # one lost connection, or nobody there any more?
        return list(found)

    async def _trajectory(
        self, endpoint: Endpoint, free: asyncio.Semaphore, probes: Sequence[Probe]
    ) -> Scores:
        sequences = list(dict.fromkeys(tuple(probe.context_ids + probe.probe_ids) for probe in probes))
        answers = await asyncio.gather(
            *(_sequence(endpoint, free, sequence) for sequence in sequences), return_exceptions=True
        )
        logprobs: dict[tuple[int, ...], list[float]] = {}
        for sequence, answer in zip(sequences, answers, strict=True):
            if isinstance(answer, RolloutError):
                return _told(answer)
            if isinstance(answer, BaseException):
                raise answer
            logprobs[sequence] = answer
        return [answer_part(logprobs[tuple(probe.context_ids + probe.probe_ids)], probe) for probe in probes]


def answer_part(logprobs: Sequence[float], probe: Probe) -> torch.Tensor:
    """[A] the log-probs of a probe's answer tokens, from those of its whole sequence from the second token on."""
    asked = len(probe.context_ids) + torch.tensor(probe.answer_mask).nonzero()[:, 0]
    return torch.tensor(logprobs, dtype=torch.float64)[asked - 1]


def prompt_logprobs_request(token_ids: Sequence[int]) -> dict[str, Any]:
    """Asks in both ways that servers know: vLLM's `prompt_logprobs`, and the older `echo` with `logprobs`."""
    return {
        "prompt": list(token_ids),
        "max_tokens": 1,  # some servers refuse 0
        "prompt_logprobs": 0,
        "echo": True,
        "logprobs": 1,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "add_special_tokens": False,
    }


def parse_prompt_logprobs(content: bytes, token_ids: Sequence[int]) -> list[float]:
    """Log-probs of `token_ids` from the second on; natural log.

    Raises:
        BodyError: `prompt_changed` if they are of other tokens than those sent, `no_prompt_logprobs` if there are none,
            and what `read_choice` raises.
    """
    choice, _ = read_choice(content)
    check_prompt(choice, token_ids)
    told = choice.get("prompt_logprobs")
    values = _by_id(told, token_ids) if told is not None else _echoed(choice.get("logprobs"), token_ids)
    if not is_list_of(values, (int, float)) or not all(map(isfinite, values)):
        raise BodyError("schema", "a log-prob of the prompt is not a number")
    return [float(value) for value in values]


async def _sequence(endpoint: Endpoint, free: asyncio.Semaphore, token_ids: Sequence[int]) -> list[float]:
    async with free:
        return await endpoint.ask(
            "completions",
            prompt_logprobs_request(token_ids),
            lambda content: parse_prompt_logprobs(content, token_ids),
        )


def _told(error: RolloutError) -> RolloutError:
    if error.cause == "no_prompt_logprobs":
        raise EvalError(f"{error}; score with a model folder, or with an endpoint of vLLM") from error
    return error


def _by_id(told: Any, token_ids: Sequence[int]) -> list[Any]:
    """vLLM: for each token but the first an object from ids to log-probs, the token's own among them."""
    if not isinstance(told, list) or len(told) != len(token_ids):
        raise BodyError(
            "prompt_changed", f"sent {len(token_ids)} tokens, `prompt_logprobs` is not of that many"
        )
    values = []
    for place, (token, entry) in enumerate(zip(token_ids[1:], told[1:], strict=True), 1):
        own = entry.get(str(token)) if isinstance(entry, dict) else None
        if not isinstance(own, dict):
            raise BodyError(
                "prompt_changed", f"`prompt_logprobs[{place}]` has no entry for the token {token} sent"
            )
        values.append(own.get("logprob"))
    return values


def _echoed(logprobs: Any, token_ids: Sequence[int]) -> list[Any]:
    ids = spelled_ids(logprobs)
    count = len(token_ids)
    if ids is None or len(ids) < count:
        raise BodyError(
            "no_prompt_logprobs", "the endpoint returns no log-probs of prompt tokens (with their ids)"
        )
    if ids[:count] != list(token_ids):
        raise BodyError("prompt_changed", f"sent {count} tokens, the endpoint echoed others")
    return list(logprobs["token_logprobs"][1:count])
