"""Questions that a replay buffer asked and did not hand over: kept by reason until the trainer has counted them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from verl_patches.failures import Failure, RunFailed, describe
from verl_patches.records import SessionRecord

EQUAL = "equal"  # all rollouts have the same value of the filter's metric
SURPLUS = "surplus"  # more questions were left than a batch takes
STALE = "stale"  # older than verl's max_off_policy_threshold allows


@dataclass
class DroppedGroups:
    """What left the queue between two batches.

    Attributes:
        reasons: questions by reason.
        uids: the questions.
        keys: their training rows, as they lay in the queue.
        records: session → what its agent loop told.
    """

    reasons: Counter[str] = field(default_factory=Counter)
    uids: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    records: dict[str, SessionRecord | Failure] = field(default_factory=dict)

    def add(
        self, reasons: Mapping[str, str], keys: Sequence[str], records: Mapping[str, SessionRecord | Failure]
    ) -> None:
        """Adds questions (uid → reason) with their rows and records."""
        self.reasons.update(reasons.values())
        self.uids += reasons
        self.keys += keys
        self.records.update(records)

    def check_equal(self, allowed: int, metric: str, step: int) -> None:
        """Stops a step that finds too few questions whose rollouts differ.

        Raises:
            RunFailed: if more than `allowed` questions were dropped as equal, with their mean reward and the failures.
        """
        if self.reasons[EQUAL] <= allowed:
            return
        rewards = [record.reward for record in self.records.values() if isinstance(record, SessionRecord)]
        failures = [record for record in self.records.values() if isinstance(record, Failure)]
        raise RunFailed(
            f"step {step}: {self.reasons[EQUAL]} questions were dropped because all their rollouts have the same {metric}, "
            f"and too few others were found (mean reward of what was dropped {fmean(rewards) if rewards else 0.0:g}; "
            f"{describe(failures)}). The questions are too easy or too hard for the model: take others, raise "
            "actor_rollout_ref.rollout.n or algorithm.filter_groups.max_num_gen_batches, or write "
            "algorithm.filter_groups.enable=false"
        )


def dropped_metrics(reasons: Mapping[str, int], records: Collection[SessionRecord]) -> dict[str, float]:
    """`dropped/groups` and `dropped/rollouts` (also when nothing was dropped), groups by reason, and their mean reward.

    Args:
        reasons: reason → questions; records: the trajectories of these questions.
    """
    result: dict[str, float] = {"dropped/groups": sum(reasons.values()), "dropped/rollouts": len(records)}
    result |= {f"dropped/{reason}": reasons[reason] for reason in sorted(reasons)}
    if records:
        result["dropped/reward_mean"] = fmean(record.reward for record in records)
    return result
