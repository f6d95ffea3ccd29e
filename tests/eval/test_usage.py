"""Tokens of a trajectory, against counts by hand."""

from __future__ import annotations

import asyncio

import pytest

from eval.usage import TokenUsage
from mempo.task import Task
from mempo.trajectory import Trajectory
from tests.mempo.support import ANSWER_TURN, SEARCH_TURN, TASK, ScriptedModel, make_agent, small_tokens


def run(context: str, *, force: bool = False) -> tuple[Trajectory, list[list[int]]]:
    """A trajectory of two turns, and the prompts that the model was really sent."""
    tokens = small_tokens()
    turns = [SEARCH_TURN, ANSWER_TURN]
    model = ScriptedModel(tokens, [turn.removeprefix("<mem>\n") for turn in turns] if force else turns)
    trajectory = asyncio.run(make_agent(tokens, context=context, force=force).run(TASK, model))
    return trajectory, model.prompts


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("context", ["history", "window:1"])
def test_tokens_are_those_of_the_requests(context: str, force: bool) -> None:
    trajectory, prompts = run(context, force=force)
    shown = [len(prompt) for prompt in prompts]  # a forced prefix included
    wrote = [len(turn.response_ids) for turn in trajectory.turns]
    usage = TokenUsage.of(trajectory)
    assert (usage.prompt, usage.response) == (sum(shown), sum(wrote))
    assert usage.peak == max(shown[0] + wrote[0], shown[1] + wrote[1])


def test_dependency_is_what_every_generated_token_attends_to() -> None:
    trajectory, prompts = run("history")
    lengths = [
        (len(prompt), len(turn.response_ids)) for prompt, turn in zip(prompts, trajectory.turns, strict=True)
    ]
    # Token i of a response (from 0) has the prompt and i tokens before it, and half of itself in the formula.
    counted = sum(before + i for before, new in lengths for i in range(new))
    assert TokenUsage.of(trajectory).dependency == pytest.approx(counted + sum(new for _, new in lengths) / 2)


def test_dependency_by_hand() -> None:
    trajectory, _ = run("history")
    for turn, (before, new) in zip(trajectory.turns, [(10, 4), (30, 3)], strict=True):
        turn.prompt_ids, turn.response_ids = [0] * before, [0] * new
    assert TokenUsage.of(trajectory) == TokenUsage(40, 7, 33, (10 + 2) * 4 + (30 + 1.5) * 3)


def test_a_trajectory_without_turns_costs_nothing() -> None:
    trajectory, _ = run("history")
    empty = Trajectory(Task("q", "?"), [], trajectory.stop, [1], [2])
    assert TokenUsage.of(empty) == TokenUsage(0, 0, 0, 0.0)
