"""What reading costs by the length of the document: requests and tokens grow linearly, the longest request stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from mempo.agents.base import Generation
from mempo.agents.chunk_memory import ChunkMemoryAgent
from mempo.prompts import reading_prompt
from mempo.task import Limits, Task
from mempo.tokens import ChatTokens


class FullMemory:
    """A model that always writes as much as it may, the most expensive there is; it counts what it is asked.

    Attributes:
        prompt: tokens shown, summed over the requests. response: tokens written.
        peak: prompt and response of the longest request.
    """

    def __init__(self, token: int) -> None:
        self._token = token
        self.requests = self.prompt = self.response = self.peak = 0

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        """`max_tokens` times the same token."""
        self.requests += 1
        self.prompt += len(prompt_ids)
        self.response += max_tokens
        self.peak = max(self.peak, len(prompt_ids) + max_tokens)
        return Generation([self._token] * max_tokens, [0.0] * max_tokens)


@dataclass(frozen=True)
class ReadingBench:
    """Documents of random words, read by the chunk reader over a stand-in for a model.

    Attributes:
        lengths: tokens of the documents.
        chunk, memory, answer: the reader's caps in tokens.
    """

    lengths: tuple[int, ...]
    chunk: int
    memory: int
    answer: int
    seed: int

    def run(self) -> Iterator[dict[str, Any]]:
        """One result per length: `document` (tokens), `requests`, `prompt`, `response`, `peak`, `bound`, `seconds`."""
        tokens = _tokens()
        words = [word for word in tokens.tokenizer.get_vocab() if word.startswith("Ġ") and word[1:].isalpha()]
        rng, question = Random(self.seed), "Who is the mayor?"
        for length in self.lengths:
            document = " ".join(word[1:] for word in rng.choices(sorted(words), k=length))
            agent = ChunkMemoryAgent(
                tokens,
                prompt=reading_prompt("published"),
                limits=Limits(length // self.chunk + 3, self.memory, self.chunk, 1 << 40),
                max_question_tokens=len(tokens.encode_inert(question)),
                max_answer_tokens=self.answer,
                verifier="boxed_em",
            )
            model = FullMemory(tokens.encode_inert("the")[0])
            started = time.perf_counter()
            asyncio.run(agent.run(Task("bench", question, document=document), model))
            yield {
                "document": len(tokens.encode_inert(document)),
                "requests": model.requests,
                "prompt": model.prompt,
                "response": model.response,
                "peak": model.peak,
                "bound": agent.longest_request,
                "seconds": time.perf_counter() - started,
            }


def linear_fit(x: Sequence[float], y: Sequence[float]) -> dict[str, float]:
    """Least squares: `slope`, `intercept` and `r2`, the share of the variance that the line explains."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((value - mean_x) ** 2 for value in x)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    intercept = mean_y - slope * mean_x
    left = sum((b - slope * a - intercept) ** 2 for a, b in zip(x, y, strict=True))
    whole = sum((value - mean_y) ** 2 for value in y)
    return {"slope": slope, "intercept": intercept, "r2": 1 - left / whole if whole else 1.0}


def fits(results: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The fit of `requests`, `prompt` and `response` over the documents' lengths."""
    lengths = [float(result["document"]) for result in results]
    return {
        name: linear_fit(lengths, [float(result[name]) for result in results])
        for name in ("requests", "prompt", "response")
    }


def _tokens() -> ChatTokens:
    """The tokenizer of the generated world: made on the spot, so that nothing has to be downloaded."""
    from tools.world.tokenizer import train_tokenizer
    from tools.world.vocabulary import vocabulary_texts

    return ChatTokens(train_tokenizer(vocabulary_texts()))
