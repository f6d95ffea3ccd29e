"""Verifiers by name: what each calls right, and that an answer of nothing never is."""

import asyncio

import pytest

from mempo.boxed import boxed_answer
from mempo.reward import outcome_reward
from mempo.task import Reference, Task
from mempo.trajectory import Trajectory
from mempo.verifiers import VERIFIERS, verify
from tests.mempo.agents.test_chunk_memory import make
from tests.mempo.support import ScriptedModel, small_tokens


def said(text: str, objectives: int = 1) -> Trajectory:
    tokens = small_tokens()
    task = Task("q1", "Who?", objectives, document="A page.")
    agent = make(tokens, max_answer_tokens=80)
    return asyncio.run(agent.run(task, ScriptedModel(tokens, ["m", text])))


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("It is \\boxed{Oslo}.", "Oslo"),
        ("\\boxed{a} or rather \\boxed{ b }", "b"),
        ("\\boxed{f_{1}(x)}", "f_{1}(x)"),
        ("\\boxed {Oslo}", "Oslo"),
        ("\\boxed{}", ""),
        ("\\boxed{Oslo", None),
        ("\\boxed{Rome} and \\boxed{Oslo", "Rome"),
        ("Oslo", None),
        ("", None),
    ],
)
def test_the_last_closed_box_counts(text: str, box: str | None) -> None:
    assert boxed_answer(text) == box


@pytest.mark.parametrize(
    ("text", "exact", "em", "lenient"),
    [
        ("\\boxed{Mira Voss}", 1, 1, 1),
        ("\\boxed{the mira voss.}", 0, 1, 1),
        ("\\boxed{director Mira Voss}", 0, 0, 1),
        ("Mira Voss", 0, 0, 1),
        ("It was Mira Voss. \\boxed{Ann}", 0, 0, 0),
        ("\\boxed{}", 0, 0, 0),
        ("\\boxed{the}", 0, 0, 0),
        ("", 0, 0, 0),
        ("Mira", 0, 0, 0),
    ],
)
def test_the_three_verifiers_of_boxed_answers(text: str, exact: int, em: int, lenient: int) -> None:
    trajectory, gold = said(text), Reference([["Mira Voss"]])
    rewards = [
        outcome_reward(trajectory, gold, verifier=name).reward
        for name in ("boxed_exact", "boxed_em", "lenient")
    ]
    assert rewards == [exact, em, lenient]


def test_several_objectives_in_one_box() -> None:
    trajectory = said("\\boxed{Mira Voss; oslo}", objectives=2)
    gold = Reference([["Mira Voss"], ["Oslo"]])
    assert outcome_reward(trajectory, gold, verifier="boxed_exact").reward == 1.0
    assert outcome_reward(trajectory, gold, verifier="boxed_em").reward == 2.0
    assert outcome_reward(trajectory, gold, verifier="boxed_em", objectives="mean").success


def test_a_missing_box_is_named() -> None:
    outcome = outcome_reward(said("Mira Voss"), Reference([["Mira Voss"]]), verifier="boxed_em")
    assert outcome.format_reason == "box_missing"
    assert not outcome.success


def test_an_unknown_verifier_lists_those_there_are() -> None:
    with pytest.raises(ValueError, match="tagged, boxed_exact, boxed_em, lenient"):
        verify("strict", said("x"), Reference([["x"]]))
    assert list(VERIFIERS) == ["tagged", "boxed_exact", "boxed_em", "lenient"]
