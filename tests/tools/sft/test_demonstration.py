"""Demonstrations: right format and answer, the rows that the agent would make of them, and honest carelessness."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from mempo.agents.base import Generation, ToolReply
from mempo.agents.self_memory import SelfMemoryAgent
from mempo.reward import outcome_reward
from mempo.task import Limits, Reference, Task
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode, Trajectory
from tools.sft.demonstration import Demonstration
from tools.sft.examples import encode_row
from tools.sft.world_oracle import Habits, OracleSettings, WorldSearch, demonstrate, world_demonstrations
from tools.world.facts import make_world
from tools.world.questions import Question, draw_question
from tools.world.tokenizer import train_tokenizer
from tools.world.vocabulary import vocabulary_texts

COUNTS = {"person": 30, "film": 20, "novel": 20, "town": 15, "company": 15}
MIXTURE = {"1": 1.0, "2": 1.0, "3": 1.0, "1+1": 1.0}


@pytest.fixture(scope="module")
def tokens() -> ChatTokens:
    return ChatTokens(train_tokenizer(vocabulary_texts()))


def _draw(
    seed: int, habits: Habits, mixture: dict[str, float]
) -> tuple[Question, Demonstration, WorldSearch]:
    rng = Random(seed)
    world = make_world(COUNTS, rng)
    search = WorldSearch(world)
    question = draw_question(world, mixture, rng)
    return question, demonstrate("demo", question, search, habits, rng), search


def _play(
    tokens: ChatTokens, demo: Demonstration, search: WorldSearch, context: ContextMode, objectives: int
) -> Trajectory:
    """The agent's own rollout, with a model that says what the demonstration says."""

    class Scripted:
        async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
            ids = [*tokens.encode_own(demo.turns()[turn]), tokens.turn_end_id]
            return Generation(ids, [0.0] * len(ids))

    async def tool(query: str) -> ToolReply:
        return ToolReply(search(query), "ok")

    limits = Limits(max_turns=5, max_response_tokens=80, max_observation_tokens=160, max_context_tokens=1024)
    agent = SelfMemoryAgent(tokens, tool, prompt="brief", context=context, limits=limits)
    return asyncio.run(agent.run(Task("t", demo.question, objectives), Scripted()))


@pytest.mark.parametrize("context", ["window:1", "history"])
@pytest.mark.parametrize("shape", ["1", "2", "3", "1+1"])
def test_rows_equal_the_agents_own_rows_and_earn_the_reward(
    tokens: ChatTokens, shape: str, context: str
) -> None:
    mode = ContextMode.parse(context)
    question, demo, search = _draw(5, Habits(), {shape: 1.0})
    trajectory = _play(tokens, demo, search, mode, len(question.chains))
    reference = Reference([[chain.answer] for chain in question.chains])
    assert outcome_reward(trajectory, reference).success
    examples = [encode_row(tokens, row) for row in demo.rows(mode, "brief")]
    assert [example.ids for example in examples] == [
        row.prompt_ids + row.response_ids for row in trajectory.rows()
    ]
    assert [example.mask for example in examples] == [
        [0] * len(row.prompt_ids) + row.response_mask for row in trajectory.rows()
    ]


def test_a_hasty_demonstration_answers_with_the_first_entity_it_meets() -> None:
    question, demo, _ = _draw(1, Habits(hasty_long=1.0), {"3": 1.0})
    assert len(demo.steps) == 1
    assert demo.answer == question.chains[0].values[0].name != question.answer


def test_a_hasty_demonstration_of_one_hop_is_right() -> None:
    question, demo, _ = _draw(1, Habits(hasty=1.0, hasty_long=1.0), {"1": 1.0})
    assert demo.answer == question.answer


def test_a_forgetful_demonstration_lost_the_first_answer() -> None:
    question, demo, _ = _draw(1, Habits(forgetful=1.0), {"1+1": 1.0})
    first, second = question.chains
    assert first.answer not in demo.memory and second.answer in demo.memory
    assert demo.answer == second.answer


def test_habits_have_about_their_share() -> None:
    settings = OracleSettings(demonstrations=300, counts=COUNTS, mixture={"2": 1.0}, habits=Habits(hasty=0.4))
    hasty = sum(len(demo.steps) == 1 for demo in world_demonstrations(settings, 0))
    assert 90 <= hasty <= 150


def test_demonstrations_follow_the_seed_and_draw_facts_of_their_own() -> None:
    settings = OracleSettings(demonstrations=60, per_world=20, counts=COUNTS, mixture=MIXTURE)
    first = list(world_demonstrations(settings, 0))
    assert first == list(world_demonstrations(settings, 0))
    assert first != list(world_demonstrations(settings, 1))
    assert len({demo.question for demo in first}) > 50


def test_a_row_in_the_wrong_order_is_named(tokens: ChatTokens) -> None:
    row: dict[str, Any] = {
        "id": "bad",
        "messages": [{"role": "user", "content": "x"}, {"role": "tool", "content": "y"}],
        "train_last_only": False,
    }
    with pytest.raises(ValueError, match="'bad'"):
        encode_row(tokens, row)
