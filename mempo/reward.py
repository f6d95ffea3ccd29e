"""The outcome reward of a trajectory: what its verifier calls right, and only in the right format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from mempo.answers import AnswerScore
from mempo.pool import in_pool
from mempo.tags import FormatReason
from mempo.task import Reference
from mempo.trajectory import Trajectory
from mempo.verifiers import pool_deadline, verify

OBJECTIVES = ("sum", "mean")


@dataclass(frozen=True)
class Outcome:
    """Reward and what it was made from.

    Attributes:
        answer: EM, F1 and sub-EM of the final answer, whatever the verifier.
        right: what the verifier says of each objective.
        format_reason: None when the format is right.
    """

    reward: float
    answer: AnswerScore
    right: list[bool]
    format_reason: FormatReason | None

    @property
    def format_ok(self) -> bool:
        return self.format_reason is None

    @property
    def success(self) -> bool:
        """All objectives right, in the right format."""
        return self.format_ok and all(self.right)


def outcome_reward(
    trajectory: Trajectory, reference: Reference, *, objectives: str = "sum", verifier: str = "tagged"
) -> Outcome:
    """Reads the reward off the trajectory object; no observation takes part.

    Args:
        objectives: `sum` gives one point per right sub-answer (published), `mean` their share.
        verifier: of `mempo.verifiers`; an agent names its own.

    Raises:
        RolloutError: `bad_verdict`; see `mempo.verifiers.verify`.
        ValueError: for an unknown name.
    """
    if objectives not in OBJECTIVES:
        raise ValueError(f"task.reward is {objectives!r}; known are {', '.join(OBJECTIVES)}")
    score, verdict = verify(verifier, trajectory, reference)
    points = float(sum(verdict.right))
    earned = points if objectives == "sum" else points / len(verdict.right)
    reason = verdict.format_reason
    return Outcome(earned if reason is None else 0.0, score, verdict.right, reason)


async def judge(
    trajectory: Trajectory, reference: Reference, *, objectives: str = "sum", verifier: str = "tagged"
) -> Outcome:
    """`outcome_reward`, in the process pool (`mempo.pool`) if the verifier asks for it.

    Raises:
        RolloutError: in the pool, for whatever kept the verifier from its verdict: failed is not wrong. Otherwise see
            `outcome_reward`, as for ValueError.
    """
    reward = partial(outcome_reward, objectives=objectives, verifier=verifier)
    deadline_s = pool_deadline(verifier)
    if deadline_s is None:
        return reward(trajectory, reference)
    return await in_pool(reward, trajectory, reference, deadline_s=deadline_s)
