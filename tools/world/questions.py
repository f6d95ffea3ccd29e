"""Questions about a world: chains of one to three relations, and several such questions at once."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from mempo.prompts import join_objectives
from tools.world.facts import World
from tools.world.names import Entity
from tools.world.relations import VALUE_KIND, chains


@dataclass(frozen=True)
class Chain:
    """One question: follow `relations` from `start`; `values` are the entities met, the answer last."""

    start: Entity
    relations: tuple[str, ...]
    values: tuple[Entity, ...]

    @property
    def answer(self) -> str:
        return self.values[-1].name

    @property
    def text(self) -> str:
        """The question, e.g. `What is the birthplace of the director of the film Amber Lantern?`."""
        asks = "Who" if VALUE_KIND[self.relations[-1]] == "person" else "What"
        path = " of ".join(f"the {relation}" for relation in reversed(self.relations))
        return f"{asks} is {path} of the {self.start.label}?"

    @property
    def visited(self) -> list[Entity]:
        """The entities whose pages must be read, in order."""
        return [self.start, *self.values[:-1]]


@dataclass(frozen=True)
class Question:
    """One or several chains that are asked together."""

    chains: tuple[Chain, ...]

    @property
    def text(self) -> str:
        return join_objectives(chain.text for chain in self.chains)

    @property
    def answer(self) -> str:
        return join_objectives(chain.answer for chain in self.chains)

    @property
    def hops(self) -> int:
        return sum(len(chain.relations) for chain in self.chains)

    @property
    def type(self) -> str:
        """`chain2`, or `pair1+1` for two questions of one hop each."""
        lengths = [str(len(chain.relations)) for chain in self.chains]
        return f"chain{lengths[0]}" if len(lengths) == 1 else "joint" + "+".join(lengths)


_CHAINS = {hops: chains(hops) for hops in (1, 2, 3)}


def draw_chain(world: World, hops: int, rng: Random, *, avoid: frozenset[str] = frozenset()) -> Chain:
    """A random chain that uses none of the relations in `avoid` and meets no entity twice."""
    while True:
        kind, relations = rng.choice(_CHAINS[hops])
        if avoid.intersection(relations):
            continue
        start = rng.choice(world.entities[kind])
        values = world.follow(start, relations)
        if len({start, *values}) == hops + 1:
            return Chain(start, relations, tuple(values))


def draw_question(world: World, mixture: dict[str, float], rng: Random) -> Question:
    """A random question; `mixture` maps hops per objective (`"2"`, `"1+1"`) to a weight."""
    shape = rng.choices(list(mixture), weights=list(mixture.values()))[0]
    found: list[Chain] = []
    for hops in shape.split("+"):
        used = frozenset(relation for chain in found for relation in chain.relations)
        found.append(draw_chain(world, int(hops), rng, avoid=used))
    return Question(tuple(found))


def draw_questions(world: World, mixture: dict[str, float], count: int, rng: Random) -> list[Question]:
    """`count` different questions.

    Raises:
        ValueError: the mixture is malformed, or the world has too few questions of that mixture.
    """
    for shape in mixture:
        if any(hops not in ("1", "2", "3") for hops in shape.split("+")):
            raise ValueError(
                f"mixture: {shape!r} is no shape of a question; write e.g. `2` or `1+1`, 1 to 3 hops each"
            )
    found: dict[str, Question] = {}
    for _ in range(20 * count):
        if len(found) == count:
            break
        question = draw_question(world, mixture, rng)
        found.setdefault(question.text, question)
    if len(found) < count:
        raise ValueError(
            f"the world has too few questions: {len(found)} of {count} found; ask for fewer, more pages or more hops"
        )
    return list(found.values())
