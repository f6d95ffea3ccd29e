"""A world: entities, and one value for every relation of every entity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tools.world.names import Entity, draw_entities
from tools.world.relations import RELATIONS


@dataclass(frozen=True)
class Page:
    """One page of the corpus."""

    title: str
    text: str


@dataclass(frozen=True)
class World:
    """Entities by kind, and the value of each (entity, relation)."""

    entities: dict[str, list[Entity]]
    facts: dict[tuple[Entity, str], Entity]
    pages: dict[Entity, Page]

    def follow(self, start: Entity, relations: Sequence[str]) -> list[Entity]:
        """The entities on the way from `start`, `start` left out; the last one is the answer."""
        found, here = [], start
        for relation in relations:
            here = self.facts[here, relation]
            found.append(here)
        return found


def make_world(counts: dict[str, int], rng: Random) -> World:
    """Draws entities, facts and the order of the sentences on each page."""
    entities = draw_entities(counts, rng)
    shared = Counter(entity.name for members in entities.values() for entity in members)
    facts: dict[tuple[Entity, str], Entity] = {}
    pages: dict[Entity, Page] = {}
    for kind, members in entities.items():
        for entity in members:
            for relation, value_kind in RELATIONS[kind].items():
                value = rng.choice(entities[value_kind])
                while value == entity:
                    value = rng.choice(entities[value_kind])
                facts[entity, relation] = value
            sentences = [f"The {relation} is {facts[entity, relation].name}." for relation in RELATIONS[kind]]
            rng.shuffle(sentences)
            title = f"{entity.name} ({kind})" if shared[entity.name] > 1 else entity.name
            pages[entity] = Page(title, " ".join([f"A {kind}.", *sentences]))
    return World(entities, facts, pages)
