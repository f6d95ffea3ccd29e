"""The agent's own trajectories, in both context modes: from their plans to their scores, by tree as one by one."""

from __future__ import annotations

import asyncio

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from mempo.memory_scores import MemorySettings, plan_probes
from mempo.probe import ANSWER_TAG
from mempo.scoring.scorer import TreeScorer
from mempo.task import Reference
from mempo.trajectory import Trajectory
from tests.mempo.scoring.models import SIZES, assert_same, one_by_one
from tests.mempo.support import (
    ANSWER_TURN,
    SEARCH_TURN,
    SECOND_TURN,
    TASK,
    ScriptedModel,
    ScriptedSearch,
    make_agent,
    small_tokens,
)

TOKENS = small_tokens()
NO_MEMORY = SECOND_TURN[SECOND_TURN.index("<think>") :]
ROLLOUTS = {
    "answers after two searches": ([SEARCH_TURN, SECOND_TURN, ANSWER_TURN], ScriptedSearch()),
    "one turn": ([ANSWER_TURN], ScriptedSearch()),
    "a turn without memory": ([SEARCH_TURN, NO_MEMORY, ANSWER_TURN], ScriptedSearch()),
    "empty observations": ([SEARCH_TURN, SECOND_TURN, ANSWER_TURN], ScriptedSearch("")),
}


def play(turns: list[str], search: ScriptedSearch, context: str) -> Trajectory:
    agent = make_agent(TOKENS, context=context, search=search)
    return asyncio.run(agent.run(TASK, ScriptedModel(TOKENS, turns)))


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    sizes = SIZES | {"vocab_size": 400}
    return Qwen2ForCausalLM(Qwen2Config(**sizes, num_attention_heads=4, num_key_value_heads=2)).eval()


@pytest.mark.parametrize("aliases", ["first", "best"])
@pytest.mark.parametrize("reference", ["history", "previous_memory"])
@pytest.mark.parametrize("context", ["history", "window:1"])
def test_rewards_are_those_of_one_sequence_per_probe(model, context, reference, aliases):
    gold = Reference([["Mira Voss", "Voss", "M"]])  # the last: an answer of one token
    settings = MemorySettings(likelihood="all", reference=reference, aliases=aliases)
    trajectories = [play(turns, search, context) for turns, search in ROLLOUTS.values()]
    plans = [plan_probes(trajectory, gold, TOKENS, ANSWER_TAG, settings) for trajectory in trajectories]
    probes = [plan.probes for plan in plans]
    assert sum(map(len, probes)) > 0
    expected = one_by_one(model, probes)
    found = TreeScorer(model, 100_000).answer_logprobs(probes)
    assert_same(found, expected)
    for plan, by_tree, plainly in zip(plans, found, expected, strict=True):
        for one, other in zip(plan.scores(by_tree), plan.scores(plainly), strict=True):
            assert one.status == other.status
            assert one.reward == pytest.approx(other.reward, abs=1e-4)


def test_broken_weights_name_the_trajectory_and_the_turn(model):
    trajectory = play([SEARCH_TURN, SECOND_TURN, ANSWER_TURN], ScriptedSearch(), "history")
    plan = plan_probes(trajectory, Reference([["Mira"]]), TOKENS, ANSWER_TAG, MemorySettings(), name="u1_3")
    broken = Qwen2ForCausalLM(model.config)
    broken.model.norm.weight.data.fill_(float("nan"))
    (logprobs,) = TreeScorer(broken, 10_000).answer_logprobs([plan.probes])
    with pytest.raises(ValueError, match="trajectory u1_3, turn 2"):
        plan.scores(logprobs)
