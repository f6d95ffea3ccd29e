"""Worlds: seeded, complete, with names that are shared."""

from __future__ import annotations

from random import Random

import pytest

from tools.world.facts import make_world
from tools.world.names import POOLS, draw_entities
from tools.world.relations import KINDS, RELATIONS, VALUE_KIND, chains

COUNTS = {"person": 60, "film": 400, "novel": 400, "town": 20, "company": 20}


def test_the_same_seed_gives_the_same_world_and_another_seed_another_one() -> None:
    assert make_world(COUNTS, Random(1)).pages == make_world(COUNTS, Random(1)).pages
    assert make_world(COUNTS, Random(1)).pages != make_world(COUNTS, Random(2)).pages


def test_every_page_states_every_relation_of_its_entity() -> None:
    world = make_world(COUNTS, Random(1))
    assert len(world.pages) == sum(COUNTS.values())
    for entity, page in world.pages.items():
        for relation, kind in RELATIONS[entity.kind].items():
            value = world.facts[entity, relation]
            assert value.kind == kind
            assert f"The {relation} is {value.name}." in page.text


def test_titles_are_unique_although_names_are_shared() -> None:
    world = make_world(COUNTS, Random(1))
    titles = [page.title for page in world.pages.values()]
    assert len(set(titles)) == len(titles)
    assert any(title.endswith("(film)") for title in titles)
    assert any(title.endswith("(novel)") for title in titles)


def test_more_entities_than_names_is_an_error_that_names_the_kind() -> None:
    with pytest.raises(ValueError, match="kind 'town'"):
        draw_entities({"town": 10_000}, Random(0))


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="planet"):
        draw_entities({"planet": 1}, Random(0))


def test_a_relation_belongs_to_one_kind_only() -> None:
    assert len(VALUE_KIND) == sum(len(relations) for relations in RELATIONS.values())
    assert set(POOLS) == set(KINDS)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_chains_lead_from_kind_to_kind(hops: int) -> None:
    for start, path in chains(hops):
        kind = start
        for relation in path:
            kind = RELATIONS[kind][relation]
        assert len(path) == len(set(path)) == hops
