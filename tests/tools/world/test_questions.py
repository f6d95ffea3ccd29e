"""Questions: their answers follow from the facts, they differ, and impossible demands are named."""

from __future__ import annotations

from random import Random

import pytest

from tools.world.facts import World, make_world
from tools.world.questions import draw_chain, draw_question, draw_questions


@pytest.fixture(scope="module")
def world() -> World:
    return make_world({"person": 30, "film": 20, "novel": 20, "town": 15, "company": 15}, Random(3))


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_chain_answers_with_the_last_entity_it_meets(world: World, hops: int) -> None:
    chain = draw_chain(world, hops, Random(hops))
    here = chain.start
    for relation, value in zip(chain.relations, chain.values, strict=True):
        here = world.facts[here, relation]
        assert here == value
    assert chain.answer == here.name
    assert chain.visited == [chain.start, *chain.values[:-1]]


def test_the_question_names_the_relations_from_last_to_first(world: World) -> None:
    chain = draw_chain(world, 2, Random(0))
    first, second = chain.relations
    assert f"the {second} of the {first} of the {chain.start.kind} {chain.start.name}?" in chain.text
    assert chain.start.name in chain.text and chain.answer not in chain.text


def test_joint_questions_use_different_relations_and_join_their_answers(world: World) -> None:
    for seed in range(20):
        question = draw_question(world, {"1+2": 1.0}, Random(seed))
        one, two = question.chains
        assert not set(one.relations) & set(two.relations)
        assert question.answer == f"{one.answer}; {two.answer}"
        assert (question.type, question.hops) == ("joint1+2", 3)


def test_drawn_questions_are_different(world: World) -> None:
    questions = draw_questions(world, {"1": 1.0, "2": 1.0}, 100, Random(0))
    assert len({question.text for question in questions}) == 100


def test_too_many_questions_end_with_an_error_instead_of_a_loop(world: World) -> None:
    with pytest.raises(ValueError, match="too few questions"):
        draw_questions(world, {"1": 1.0}, 1000, Random(0))


def test_a_malformed_mixture_is_named(world: World) -> None:
    with pytest.raises(ValueError, match="'4'"):
        draw_questions(world, {"4": 1.0}, 1, Random(0))
