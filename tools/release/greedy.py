"""The proof by vLLM: its greedy tokens against those of transformers, and where they part, by how much."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eval.endpoint import EndpointSettings
    from mempo.tokens import ChatTokens

# Two engines add the same numbers in another order. Where they part, transformers' logits of the two tokens may differ
# by this much; above it the engines compute something else.
NEAR_TIE = {"float32": 1e-3, "bfloat16": 0.25}


@dataclass(frozen=True)
class Parting:
    """Where two continuations of a prompt part.

    Attributes:
        gap: by how much transformers prefers the first one's token, in logits; None if one ended where the other went on.
    """

    prompt: int
    position: int
    gap: float | None

    def is_near_tie(self, most: float) -> bool:
        """Whether rounding explains it."""
        return self.gap is not None and abs(self.gap) <= most


@dataclass(frozen=True)
class Agreement:
    """Greedy tokens of two engines over the same prompts."""

    prompts: int
    tokens: int
    partings: tuple[Parting, ...]
    near_tie: float

    @property
    def holds(self) -> bool:
        """Whether every difference is a near tie."""
        return all(parting.is_near_tie(self.near_tie) for parting in self.partings)

    def plain(self) -> dict[str, Any]:
        """As JSON types."""
        return {**asdict(self), "partings": [asdict(parting) for parting in self.partings]}


def compare_greedy(
    model: Any,
    tokens: ChatTokens,
    served: EndpointSettings,
    prompts: Sequence[list[int]],
    *,
    max_tokens: int,
    computes_in: str,
) -> Agreement:
    """Lets both engines go on with every prompt.

    Args:
        model: the release in transformers, in fp32.
        served: the same release behind vLLM, greedy.
        computes_in: the dtype of vLLM's computation; decides what a near tie is.

    Raises:
        RolloutError: vLLM does not answer.
    """
    theirs = asyncio.run(_from_endpoint(served, tokens, prompts, max_tokens))
    partings = []
    for index, (prompt, other) in enumerate(zip(prompts, theirs, strict=True)):
        own = greedy_tokens(model, prompt, tokens.stop_token_ids, max_tokens)
        if own != other:
            partings.append(part(model, index, prompt, own, other))
    return Agreement(len(prompts), sum(map(len, theirs)), tuple(partings), NEAR_TIE[computes_in])


def greedy_tokens(model: Any, prompt: Sequence[int], stop: Sequence[int], max_tokens: int) -> list[int]:
    """What transformers writes, the stop token included."""
    import torch
    from transformers import GenerationConfig

    # A config of its own: the release's may bring sampling or a penalty.
    settings = GenerationConfig(
        max_new_tokens=max_tokens, do_sample=False, eos_token_id=list(stop), pad_token_id=int(stop[0])
    )
    model.generation_config = settings
    ids = torch.tensor([list(prompt)])
    with torch.inference_mode():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
    return [int(each) for each in out[0, len(prompt) :]]


def part(model: Any, index: int, prompt: list[int], own: list[int], other: list[int]) -> Parting:
    """Where two different continuations of a prompt part, and by how much the model prefers the first one there."""
    import torch

    position = next(
        (place for place, pair in enumerate(zip(own, other, strict=False)) if pair[0] != pair[1]),
        min(len(own), len(other)),
    )
    if position >= min(len(own), len(other)):
        return Parting(index, position, None)
    with torch.inference_mode():
        last = model(input_ids=torch.tensor([[*prompt, *own[:position]]])).logits[0, -1].float()
    return Parting(index, position, float(last[own[position]] - last[other[position]]))


async def _from_endpoint(
    served: EndpointSettings, tokens: ChatTokens, prompts: Sequence[list[int]], max_tokens: int
) -> list[list[int]]:
    from eval.endpoint import Endpoint
    from eval.language_model import CompletionsModel

    async with Endpoint(served) as endpoint:
        model = CompletionsModel(endpoint, tokens, question_id="greedy")
        answers = [
            await model.generate(list(prompt), max_tokens=max_tokens, turn=index)
            for index, prompt in enumerate(prompts)
        ]
    return [list(answer.token_ids) for answer in answers]
