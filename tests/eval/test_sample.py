"""A sample says of a trajectory what training says of it, for every kind of output that an agent can give."""

from __future__ import annotations

import asyncio
import json
import unicodedata

import pytest

from eval.predictions import Prediction, score_predictions
from eval.sample import answered_sample, failed_sample, is_right, trajectory_of
from eval.tasks import Question
from eval.usage import TokenUsage
from mempo.prompts import format_turn
from mempo.reward import outcome_reward
from mempo.task import Limits, Reference, Task
from mempo.trajectory import Trajectory
from tests.mempo.support import NO_QWEN, ScriptedModel, make_agent, qwen_folder, qwen_tokens, small_tokens

LIMITS = Limits(max_turns=2, max_response_tokens=400, max_observation_tokens=100, max_context_tokens=4000)
ANSWERS = [
    "Paris",
    "the  PARIS!",
    "",
    " ",
    "A",
    "?!",
    "Paris or Rome",
    "Paris; 1901; Rome",
    "Paris;; Rome",
    ";;",
    "; 1901 ;",
    "1901; Paris; Rome",
    "Paris; 1901; Rome; Oslo",
    "yes",
    "東京",
    "東京; Москва; القاهرة",
    "Ｐａｒｉｓ",
    "e\u0301lan \u200f \U0001f600",
    "<b>Paris</b> & co.",
    "Paris\nRome",
]
REFERENCES = [
    Reference([["Paris", "City of Light"]]),
    Reference([["A"]]),
    Reference([["Paris"], ["1901", "nineteen oh one"], ["Rome"]]),
    Reference([["東京"], ["Москва"], ["القاهرة"]]),
]
SEARCH = format_turn("Nothing yet.", "Look.", search="harbor")
BROKEN = {
    "no memory": "<think>Known.</think><answer>Paris</answer>",
    "two answers": format_turn("x", "y", answer="Rome") + "\n<answer>Paris</answer>",
    "unclosed answer": "<mem>x</mem><think>y</think><answer>Paris",
    "no action": "<mem>x</mem><think>y</think>Paris",
    "answer in the thought": "<mem>x</mem><think><answer>Paris</answer></think><search>more</search>",
    "nothing": "",
    "text after it": format_turn("x", "y", answer="Paris") + " That is all.",
}


def roll_out(turns: list[str], reference: Reference, context: str, *, qwen: bool = False) -> Trajectory:
    tokens = qwen_tokens("qwen3") if qwen else small_tokens()
    task = Task("q", "Which town?", len(reference.answers))
    agent = make_agent(tokens, context=context, limits=LIMITS)
    return asyncio.run(agent.run(task, ScriptedModel(tokens, turns)))


def check(trajectory: Trajectory, reference: Reference) -> dict:
    """Both ways to the scores agree, from the trajectory and from what is stored of it."""
    question = Question(0, trajectory.task, reference, "test", 2, "bridge")
    outcome = outcome_reward(trajectory, reference, objectives="mean")
    sample = json.loads(json.dumps(answered_sample(question, trajectory, outcome, seconds=1.0)))
    stored = trajectory_of(sample)
    assert stored == trajectory
    for each in (trajectory, stored):
        mean = outcome_reward(each, reference, objectives="mean")
        assert sample["reward"] == mean.reward
        assert sample["em"] == mean.answer.em_mean
        assert sample["em_each"] == mean.answer.em
        assert sample["f1"] == mean.answer.f1_mean
        assert sample["sub_em"] == mean.answer.sub_em_mean
        assert sample["format_ok"] == mean.format_ok
        assert (is_right(sample) and sample["format_ok"]) == mean.success
        # A right format earns exactly the EM, a wrong one nothing.
        assert mean.reward == (sample["em"] if sample["format_ok"] else 0.0)
        summed = outcome_reward(each, reference, objectives="sum")
        assert summed.reward == (sample["em_sum"] if sample["format_ok"] else 0.0)
    alone = score_predictions([Prediction(sample["prediction"], sample["answers"])])
    assert [alone[name] for name in ("em", "f1", "sub_em")] == [
        sample[name] for name in ("em", "f1", "sub_em")
    ]
    return sample


@pytest.mark.parametrize("context", ["history", "window:1"])
@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_trajectory_scores_the_same_in_training_and_in_evaluation(
    answer: str, reference: Reference, context: str
) -> None:
    trajectory = roll_out([SEARCH, format_turn("x", "y", answer=answer)], reference, context)
    sample = check(trajectory, reference)
    assert sample["prediction"] == answer.strip()
    assert sample["format_ok"]


@pytest.mark.parametrize("turn", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("place", [0, 1])
def test_a_broken_turn_scores_the_same_in_training_and_in_evaluation(turn: str, place: int) -> None:
    turns = [turn, SEARCH] if place == 0 else [SEARCH, turn]
    sample = check(roll_out(turns, REFERENCES[0], "history"), REFERENCES[0])
    assert not sample["format_ok"]
    assert sample["reward"] == 0.0
    assert sample["format_reason"]


@pytest.mark.skipif(qwen_folder() is None, reason=NO_QWEN)
@pytest.mark.parametrize("answer", ANSWERS)
def test_the_same_holds_with_a_real_tokenizer(answer: str) -> None:
    trajectory = roll_out(
        [SEARCH, format_turn("x", "y", answer=answer)], REFERENCES[2], "window:1", qwen=True
    )
    sample = check(trajectory, REFERENCES[2])
    assert sample["prediction"] == unicodedata.normalize("NFC", answer.strip())  # as Qwen's tokenizer has it


def test_a_sample_holds_costs_and_support() -> None:
    reference = Reference([["Mira Voss"]], ["Silent Harbor", "Mira Voss"])
    trajectory = roll_out(
        [SEARCH, format_turn("By Mira Voss.", "y", answer="Mira Voss")], reference, "history"
    )
    sample = check(trajectory, reference)
    usage = TokenUsage.of(trajectory)
    assert sample["tokens"] == vars(usage)
    assert usage.dependency > usage.prompt
    assert sample["support"] == {"search": 0.5, "memory": 0.5}
    assert sample["supporting"] == ["Silent Harbor", "Mira Voss"]
    assert (sample["turns"], sample["searches"], sample["seconds"]) == (2, 1, 1.0)


def test_sums_count_objectives() -> None:
    trajectory = roll_out([SEARCH, format_turn("x", "y", answer="Paris;; in Rome")], REFERENCES[2], "history")
    sample = check(trajectory, REFERENCES[2])
    assert (sample["em_sum"], sample["sub_em_sum"]) == (1.0, 2.0)
    assert sample["f1_sum"] == pytest.approx(1 + 2 / 3)
    assert sample["sub_em"] == pytest.approx(2 / 3)


def test_a_failed_rollout_is_a_wrong_sample_of_the_same_shape() -> None:
    reference = Reference([["Paris"]], ["Paris"])
    question = Question(0, Task("q", "?"), reference, "test", 0, "")
    failed = failed_sample(question, "timeout", "too late", seconds=2.0)
    rolled = roll_out([SEARCH, format_turn("x", "y", answer="Paris")], reference, "history")
    right = answered_sample(question, rolled, outcome_reward(rolled, reference), seconds=1)
    assert failed.keys() == right.keys()
    assert failed["tokens"].keys() == right["tokens"].keys()
    assert failed["support"] == {"search": 0.0, "memory": 0.0}
    assert (failed["em"], failed["reward"], failed["failure"]["cause"]) == (0.0, 0.0, "timeout")
