"""Demonstrations on small worlds of their own, so that a model learns to read instead of learning facts by heart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from mempo.prompts import format_passages, join_objectives
from tools.search.document import Document
from tools.search.index import bm25_index
from tools.sft.demonstration import Demonstration, Step
from tools.world.facts import World, make_world
from tools.world.questions import Chain, Question, draw_question


@dataclass(frozen=True)
class Habits:
    """How careless the demonstrator is; RL has something to unlearn.

    Attributes:
        hasty: share of the two-hop questions where it answers after the first search, with the entity met there.
        hasty_long: the same for three hops. A greedy model takes the habit of the majority, so shares well off one half
            decide what it does before RL, and shares of exactly one half leave it to chance.
        forgetful: share of the questions with several objectives where it drops an answer it had found from its memory,
            and then gives only the last one.
    """

    hasty: float = 0.0
    hasty_long: float = 0.0
    forgetful: float = 0.0


class WorldSearch:
    """Search over the pages of a world, as the search server ranks them."""

    def __init__(self, world: World, topk: int = 3) -> None:
        pages = world.pages.values()
        self._index = bm25_index([Document(str(i), page.title, page.text) for i, page in enumerate(pages)])
        self._topk = topk
        self._cache: dict[str, str] = {}

    def __call__(self, query: str) -> str:
        if query not in self._cache:
            hits = self._index.search(query, self._topk)
            self._cache[query] = format_passages((hit.document.title, hit.document.text) for hit in hits)
        return self._cache[query]


def demonstrate(
    name: str, question: Question, search: WorldSearch, habits: Habits, rng: Random
) -> Demonstration:
    """One trajectory that follows the question's chains and remembers every fact on the way."""
    share = {"chain2": habits.hasty, "chain3": habits.hasty_long}.get(question.type, 0.0)
    hasty = rng.random() < share
    forgetful = len(question.chains) > 1 and rng.random() < habits.forgetful
    steps: list[Step] = []
    known: list[str] = []
    answers: list[str] = []
    for chain in question.chains:
        if forgetful:
            known, answers = [], []
        for entity, relation, value in zip(chain.visited, chain.relations, chain.values, strict=True):
            memory = " ".join([*known, f"Need the {relation}."])
            steps.append(Step(memory, entity.label, search(entity.label)))
            known.append(f"The {relation} is {value.name}.")
            if hasty:
                break
        answers.append(_answer(chain, steps, hasty))
    return Demonstration(name, question.text, tuple(steps), " ".join(known), join_objectives(answers))


def _answer(chain: Chain, steps: list[Step], hasty: bool) -> str:
    return chain.values[0].name if hasty else chain.answer


@dataclass(frozen=True)
class OracleSettings:
    """How many demonstrations, on which worlds, with which questions and how many passages per search."""

    demonstrations: int = 1000
    per_world: int = 50
    counts: dict[str, int] = field(
        default_factory=lambda: {"person": 60, "film": 40, "novel": 40, "town": 30, "company": 30}
    )
    mixture: dict[str, float] = field(default_factory=lambda: {"1": 1.0, "2": 1.0})
    topk: int = 3
    habits: Habits = field(default_factory=Habits)


def world_demonstrations(settings: OracleSettings, seed: int) -> Iterator[Demonstration]:
    """Demonstrations in a fixed order for a seed."""
    rng = Random(seed)
    made = 0
    while made < settings.demonstrations:
        world = make_world(settings.counts, rng)
        search = WorldSearch(world, settings.topk)
        for _ in range(min(settings.per_world, settings.demonstrations - made)):
            question = draw_question(world, settings.mixture, rng)
            yield demonstrate(f"world-{made}", question, search, settings.habits, rng)
            made += 1
