"""The outcome reward of a trajectory: exact match, and only in the right format (MemPO, outcome reward)."""

from __future__ import annotations

from dataclasses import dataclass

from mempo.answers import AnswerScore, score_answer
from mempo.tags import FormatReason, validate_format
from mempo.task import Reference
from mempo.trajectory import Trajectory

OBJECTIVES = ("sum", "mean")


@dataclass(frozen=True)
class Outcome:
    """Reward and what it was made from; `format_reason` is None when the format is right."""

    reward: float
    answer: AnswerScore
    format_reason: FormatReason | None

    @property
    def format_ok(self) -> bool:
        return self.format_reason is None

    @property
    def success(self) -> bool:
        """All objectives right, in the right format."""
        return self.format_ok and all(self.answer.em)


def outcome_reward(trajectory: Trajectory, reference: Reference, *, objectives: str = "sum") -> Outcome:
    """Reads the reward off the trajectory object; no observation takes part.

    Args:
        objectives: `sum` gives one point per right sub-answer (published), `mean` their share.
    """
    if objectives not in OBJECTIVES:
        raise ValueError(f"task.reward is {objectives!r}; known are {', '.join(OBJECTIVES)}")
    score = score_answer(trajectory.final_answer(), reference.answers)
    reason = validate_format(trajectory)
    earned = score.em_sum if objectives == "sum" else score.em_mean
    return Outcome(reward=earned if reason is None else 0.0, answer=score, format_reason=reason)
