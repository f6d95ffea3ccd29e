"""Demonstrations of reading: the agent itself runs over a model that knows what to remember, so that rows are its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from mempo.agents.base import Generation
from mempo.agents.factory import build_agent
from mempo.task import Task
from mempo.tokens import ChatTokens
from tools.sft.examples import Example
from tools.world.facts import World, make_world
from tools.world.questions import Chain
from tools.world.reading import UNKNOWN, Reading, ReadingSettings, draw_readings, fact_text, page_text

PER_WORLD = 50


class ReadingOracle:
    """A `LanguageModel` that remembers each fact of the chain when its page comes by, and answers from its memory.

    Args:
        chunks: the document as the reader cuts it.
        forgetful: chance, for every chunk without news, that it drops what it knew; RL has something to unlearn.
    """

    def __init__(
        self,
        tokens: ChatTokens,
        world: World,
        chain: Chain,
        chunks: list[str],
        forgetful: float,
        rng: Random,
    ) -> None:
        self._tokens, self._chain, self._chunks = tokens, chain, chunks
        self._pages = [page_text(world, entity) for entity in chain.visited]
        self._forgetful, self._rng = forgetful, rng
        self._known = 0  # facts in memory
        self._lost = False

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        """The next memory; after the last chunk, the answer."""
        text = self._memory(self._chunks[turn]) if turn < len(self._chunks) else self._answer()
        ids = [*self._tokens.encode_own(text), self._tokens.turn_end_id]
        return Generation(ids, [0.0] * len(ids))

    def _memory(self, chunk: str) -> str:
        before = self._known
        while not self._lost and self._known < len(self._pages) and self._pages[self._known] in chunk:
            self._known += 1
        if before and before == self._known and self._rng.random() < self._forgetful:
            self._known, self._lost = 0, True
        facts = []
        for hop, (entity, relation) in enumerate(
            zip(self._chain.visited, self._chain.relations, strict=True)
        ):
            known = hop < self._known
            facts.append(fact_text(entity, relation, self._chain.values[hop].name if known else UNKNOWN))
            if not known:  # whom to ask next is in the fact that is missing
                break
        return f"Known: {' '.join(facts)}"

    def _answer(self) -> str:
        whole = self._known == len(self._pages)
        return f"\\boxed{{{self._chain.answer if whole else UNKNOWN}}}"


def reading_examples(
    tokens: ChatTokens,
    agent: Mapping[str, Any],
    settings: ReadingSettings,
    *,
    demonstrations: int,
    forgetful: float,
    seed: int,
) -> Iterator[Example]:
    """The training rows of `demonstrations` trajectories, on worlds of their own: a model learns to read, not the facts.

    Args:
        agent: the `agent.*` settings of the run.
    """
    rng = Random(seed)
    reader = build_agent(agent, tokens, None)
    for made in range(demonstrations):
        if made % PER_WORLD == 0:
            world = make_world(settings.counts, rng)
            readings = draw_readings(world, tokens, settings, rng)
        reading = next(readings)
        oracle = ReadingOracle(
            tokens, world, reading.chain, _chunks(tokens, reading, settings), forgetful, rng
        )
        task = Task(f"demonstration-{made}", reading.chain.text, document=reading.document)
        for row in asyncio.run(reader.run(task, oracle)).rows():
            shown = [0] * len(row.prompt_ids)
            yield Example(row.prompt_ids + row.response_ids, shown + row.response_mask)


def _chunks(tokens: ChatTokens, reading: Reading, settings: ReadingSettings) -> list[str]:
    return [tokens.decode(ids) for ids in tokens.chunks(reading.document, settings.chunk_tokens)]
