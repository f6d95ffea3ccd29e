"""What is kept of one answered question: scores, counts and the trajectory, as plain JSON types.

A failed rollout is a sample too: wrong in every score, with the cause of its failure.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from eval.support import SupportRecall
from eval.tasks import Question
from eval.usage import TokenUsage
from mempo.answers import AnswerScore, score_answer
from mempo.reward import Outcome
from mempo.trajectory import Trajectory, restore_prompts
from mempo.verifiers import BOXED, verify

Sample = dict[str, Any]


def answered_sample(
    question: Question, trajectory: Trajectory, outcome: Outcome, *, seconds: float, boxed: bool = False
) -> Sample:
    """A finished trajectory and its scores.

    Args:
        outcome: by the scorer of training (`mempo.reward.judge`), objectives averaged.
        boxed: the agent answers in a box.

    Returns:
        the scores, for answers in a box `verified` (the share of right answers by each verifier), `tokens`
        (`eval.usage.TokenUsage`), `support` (`eval.support.SupportRecall`; None without gold paragraphs), counts, the `seconds` of the whole rollout, and the trajectory.
    """
    support = SupportRecall.of(trajectory, question.reference.supporting)
    searches = [turn.observation_status for turn in trajectory.turns if turn.observation_status != "none"]
    return {
        **_head(question),
        "prediction": trajectory.final_answer(),
        **_scores(outcome.answer),
        **({"verified": _verified(question, trajectory)} if boxed else {}),
        "reward": outcome.reward,
        "format_ok": outcome.format_ok,
        "format_reason": outcome.format_reason.value if outcome.format_reason else None,
        "stop": trajectory.stop.value,
        "failure": None,
        "turns": len(trajectory.turns),
        "searches": len(searches),
        "failed_searches": searches.count("failed"),
        "tokens": asdict(TokenUsage.of(trajectory)),
        "support": asdict(support) if support else None,
        "seconds": round(seconds, 3),
        "trajectory": _compact(trajectory),
    }


def failed_sample(
    question: Question, cause: str, message: str, *, seconds: float, boxed: bool = False
) -> Sample:
    """A rollout that did not end: it stays in the denominator, as wrong by every verifier.

    Args:
        boxed: the agent answers in a box.
    """
    return {
        **_head(question),
        "prediction": None,
        **_scores(score_answer(None, question.reference.answers)),
        **({"verified": dict.fromkeys(BOXED, 0.0)} if boxed else {}),
        "reward": 0.0,
        "format_ok": False,
        "format_reason": None,
        "stop": None,
        "failure": {"cause": cause, "message": message[:2000]},
        "turns": 0,
        "searches": 0,
        "failed_searches": 0,
        "tokens": asdict(TokenUsage(0, 0, 0, 0.0)),
        "support": asdict(SupportRecall(0.0, 0.0)) if question.reference.supporting else None,
        "seconds": round(seconds, 3),
        "trajectory": None,
    }


def trajectory_of(sample: Sample) -> Trajectory | None:
    """The trajectory of a sample, its prompts rebuilt where they follow from its turns; None for a failed one."""
    record = sample["trajectory"]
    if record is None:
        return None
    turns = [{**turn, "prompt_ids": []} for turn in record["turns"]]
    return restore_prompts(Trajectory.from_record({**record, "turns": turns}))


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
        "supporting": question.reference.supporting,
    }


def _scores(score: AnswerScore) -> Sample:
    """`em`, `f1` and `sub_em` are means over the objectives, `…_sum` sums; `em_each` has one entry per objective."""
    return {
        "em": score.em_mean,
        "em_sum": score.em_sum,
        "em_each": list(score.em),
        "f1": score.f1_mean,
        "f1_sum": float(sum(score.f1)),
        "sub_em": score.sub_em_mean,
        "sub_em_sum": float(sum(score.sub_em)),
        "given": score.given,
    }


def _verified(question: Question, trajectory: Trajectory) -> dict[str, float]:
    verdicts = {name: verify(name, trajectory, question.reference)[1] for name in BOXED}
    return {
        name: sum(verdict.right) / len(verdict.right) if verdict.format_reason is None else 0.0
        for name, verdict in verdicts.items()
    }


def _compact(trajectory: Trajectory) -> dict[str, Any]:
    # Prompts repeat the whole history each turn, or hold the document: a long run would be mostly copies.
    record = trajectory.to_record()
    for turn in record["turns"]:
        del turn["prompt_ids"]
    return record
