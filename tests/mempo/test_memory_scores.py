"""Which probes a trajectory asks for, and what their log-probs make of each turn."""

import asyncio
import math

import pytest
import torch

from mempo.memory_scores import STATUSES, MemorySettings, plan_probes
from mempo.probe import ANSWER_TAG, Probe
from mempo.task import Reference
from mempo.trajectory import Trajectory
from tests.mempo.support import (
    ANSWER_TURN,
    SEARCH_TURN,
    SECOND_TURN,
    TASK,
    ScriptedModel,
    make_agent,
    small_tokens,
)

GOLD = Reference([["Mira Voss", "Voss"]])
TOKENS = small_tokens()
FULL_TURNS = [SEARCH_TURN, SECOND_TURN, ANSWER_TURN]


def play(turns: list[str], context: str = "history") -> Trajectory:
    return asyncio.run(make_agent(TOKENS, context=context).run(TASK, ScriptedModel(TOKENS, turns)))


def constant(probe: Probe, logprob: float) -> torch.Tensor:
    return torch.full((sum(probe.answer_mask),), logprob)


@pytest.mark.parametrize("context", ["history", "window:1"])
def test_history_reference_probes_memory_and_whole_history_from_the_second_turn(context: str) -> None:
    trajectory = play(FULL_TURNS, context)
    plan = plan_probes(trajectory, GOLD, TOKENS, ANSWER_TAG, MemorySettings())
    assert plan.statuses == {0: "first", 1: "scored", 2: "scored"}
    assert [probe.context_ids for probe in plan.probes] == [
        trajectory.memory_context(1),
        trajectory.full_context(1),
        trajectory.memory_context(2),
        trajectory.full_context(2),
    ]
    scores = plan.scores(
        [constant(probe, lp) for probe, lp in zip(plan.probes, [-0.1, -0.5, -0.4, -0.2], strict=True)]
    )
    assert [score.status for score in scores] == ["first", "scored", "scored"]
    assert scores[1].reward == pytest.approx(math.exp(-0.1) - math.exp(-0.5), abs=1e-6)
    assert scores[2].reward == pytest.approx(math.exp(-0.4) - math.exp(-0.2), abs=1e-6)
    assert scores[1].kept == sum(plan.probes[0].answer_mask)


def test_previous_memory_reference_scores_every_turn_from_an_empty_one() -> None:
    trajectory = play(FULL_TURNS)
    plan = plan_probes(trajectory, GOLD, TOKENS, ANSWER_TAG, MemorySettings(reference="previous_memory"))
    assert plan.statuses == {0: "scored", 1: "scored", 2: "scored"}
    empty = plan.probes[1].context_ids
    assert TOKENS.decode(empty).endswith("<mem>\n</mem>")
    assert plan.probes[3].context_ids == trajectory.memory_context(0)
    assert plan.probes[5].context_ids == trajectory.memory_context(1)


def test_each_memory_that_cannot_be_scored_has_its_status() -> None:
    missing = SECOND_TURN[SECOND_TURN.index("<think>") :]
    trajectory = play([SEARCH_TURN, missing, ANSWER_TURN])
    plan = plan_probes(trajectory, GOLD, TOKENS, ANSWER_TAG, MemorySettings())
    assert plan.statuses == {0: "first", 1: "missing", 2: "scored"}
    unclosed = play([SEARCH_TURN, "<mem>\nand so on"])
    assert plan_probes(unclosed, GOLD, TOKENS, ANSWER_TAG, MemorySettings()).statuses == {
        0: "first",
        1: "unclosed",
    }
    tight = MemorySettings(max_positions=len(trajectory.full_context(2)))
    plan = plan_probes(trajectory, GOLD, TOKENS, ANSWER_TAG, tight)
    assert plan.statuses[2] == "too_long"
    assert plan.probes == []
    assert {*plan.statuses.values()} <= {*STATUSES}


def test_no_kept_token_leaves_the_pool_as_no_signal() -> None:
    plan = plan_probes(play(FULL_TURNS), GOLD, TOKENS, ANSWER_TAG, MemorySettings())
    scores = plan.scores([constant(probe, -3.0) for probe in plan.probes])
    assert [score.status for score in scores] == ["first", "no_signal", "no_signal"]


def test_best_alias_is_the_same_on_both_sides() -> None:
    plan = plan_probes(
        play([SEARCH_TURN, ANSWER_TURN]), GOLD, TOKENS, ANSWER_TAG, MemorySettings(aliases="best")
    )
    assert len(plan.probes) == 4
    # The second alias has the larger max(P_memory, P_reference), although the first has the larger P_memory.
    values = [-0.5, -0.6, -0.65, -0.1]
    (_, score) = plan.scores([constant(probe, lp) for probe, lp in zip(plan.probes, values, strict=True)])
    assert score.p_memory == pytest.approx(math.exp(-0.65))
    assert score.p_reference == pytest.approx(math.exp(-0.1))


def test_best_alias_per_objective_joins_the_winners() -> None:
    gold = Reference([["Mira Voss", "Voss"], ["Oslo"]])
    plan = plan_probes(
        play([SEARCH_TURN, ANSWER_TURN]), gold, TOKENS, ANSWER_TAG, MemorySettings(aliases="best")
    )
    assert len(plan.probes) == 6
    values = [-9.0, -9.0, -0.2, -0.3, -0.1, -0.6]
    (_, score) = plan.scores([constant(probe, lp) for probe, lp in zip(plan.probes, values, strict=True)])
    second, third = sum(plan.probes[2].answer_mask), sum(plan.probes[4].answer_mask)
    mean = (-0.2 * second - 0.1 * third) / (second + third)
    assert score.kept == second + third
    assert score.p_memory == pytest.approx(math.exp(mean))


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_a_broken_logprob_names_trajectory_and_turn(bad: float) -> None:
    plan = plan_probes(play(FULL_TURNS), GOLD, TOKENS, ANSWER_TAG, MemorySettings(), name="u_3")
    values = [constant(probe, -0.1) for probe in plan.probes]
    values[2][0] = bad
    with pytest.raises(ValueError, match=r"trajectory u_3, turn 3.*given the memory"):
        plan.scores(values)


def test_published_keeps_the_leading_newline_on_both_sides() -> None:
    trajectory = play([SEARCH_TURN, ANSWER_TURN])
    ours = plan_probes(trajectory, GOLD, TOKENS, ANSWER_TAG, MemorySettings()).probes
    published = plan_probes(
        trajectory, GOLD, TOKENS, ANSWER_TAG, MemorySettings(keep_leading_newline=True)
    ).probes
    assert len(published[1].probe_ids) == len(ours[1].probe_ids) + 1
    assert published[0].probe_ids == published[1].probe_ids


def test_unknown_settings_are_named() -> None:
    with pytest.raises(ValueError, match=r"memory.aliases"):
        MemorySettings(aliases="all")
    with pytest.raises(ValueError, match=r"memory.threshold_p"):
        MemorySettings(threshold_p=1.0)
