"""What is kept of one answered question: scores, counts and the trajectory, as plain JSON types.

A failed rollout is a sample too: wrong in every score, with the cause of its failure.
"""

from __future__ import annotations

from typing import Any

from eval.tasks import Question
from mempo.answers import AnswerScore, score_answer
from mempo.reward import outcome_reward
from mempo.trajectory import Trajectory, context_ids

Sample = dict[str, Any]


def answered_sample(question: Question, trajectory: Trajectory, *, seconds: float) -> Sample:
    """Scores a finished trajectory with the scorer of training.

    Tokens: `prompt` and `response` are summed over the requests, `peak` is the largest request (prompt + response).
    """
    outcome = outcome_reward(trajectory, question.reference, objectives="mean")
    shown = [len(turn.prompt_ids) + len(turn.prefix_ids) for turn in trajectory.turns]
    wrote = [len(turn.response_ids) for turn in trajectory.turns]
    searches = [turn.observation_status for turn in trajectory.turns if turn.observation_status != "none"]
    return {
        **_head(question),
        "prediction": trajectory.final_answer(),
        **_scores(outcome.answer),
        "reward": outcome.reward,
        "format_ok": outcome.format_ok,
        "format_reason": outcome.format_reason.value if outcome.format_reason else None,
        "stop": trajectory.stop.value,
        "failure": None,
        "turns": len(trajectory.turns),
        "searches": len(searches),
        "failed_searches": searches.count("failed"),
        "tokens": {
            "prompt": sum(shown),
            "response": sum(wrote),
            "peak": max((s + w for s, w in zip(shown, wrote, strict=True)), default=0),
        },
        "seconds": round(seconds, 3),
        "trajectory": _compact(trajectory),
    }


def failed_sample(question: Question, cause: str, message: str, *, seconds: float) -> Sample:
    """A rollout that did not end: it stays in the denominator, as wrong."""
    return {
        **_head(question),
        "prediction": None,
        **_scores(score_answer(None, question.reference.answers)),
        "reward": 0.0,
        "format_ok": False,
        "format_reason": None,
        "stop": None,
        "failure": {"cause": cause, "message": message[:2000]},
        "turns": 0,
        "searches": 0,
        "failed_searches": 0,
        "tokens": {"prompt": 0, "response": 0, "peak": 0},
        "seconds": round(seconds, 3),
        "trajectory": None,
    }


def trajectory_of(sample: Sample) -> Trajectory | None:
    """The trajectory of a sample, its prompts rebuilt; None for a failed one."""
    record = sample["trajectory"]
    if record is None:
        return None
    turns = [{**turn, "prompt_ids": []} for turn in record["turns"]]
    trajectory = Trajectory.from_record({**record, "turns": turns})
    for index, turn in enumerate(trajectory.turns):
        turn.prompt_ids = context_ids(
            trajectory.first_prompt_ids,
            trajectory.generation_prompt_ids,
            trajectory.turns[:index],
            trajectory.context,
        )
    return trajectory


def is_right(sample: Sample) -> bool:
    """Whether every objective is answered exactly."""
    return all(sample["em_each"])


def _head(question: Question) -> Sample:
    return {
        "id": question.task.id,
        "index": question.index,
        "data_source": question.data_source,
        "hops": question.hops,
        "type": question.type,
        "question": question.task.question,
        "objectives": question.task.objectives,
        "answers": question.reference.answers,
    }


def _scores(score: AnswerScore) -> Sample:
    """`em`, `f1` and `sub_em` are means over the objectives; `em_each` has one entry per objective."""
    return {
        "em": score.em_mean,
        "em_sum": score.em_sum,
        "em_each": list(score.em),
        "f1": score.f1_mean,
        "sub_em": score.sub_em_mean,
        "given": score.given,
    }


def _compact(trajectory: Trajectory) -> dict[str, Any]:
    # Prompts repeat the whole history each turn and follow from the rest: a long run would be mostly copies.
    record = trajectory.to_record()
    for turn in record["turns"]:
        del turn["prompt_ids"]
    return record
