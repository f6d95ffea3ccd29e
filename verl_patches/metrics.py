"""What one training step reports: sums are kept raw until the end, so that several updates of a step add up exactly.

verl averages the metrics of a step's updates, counts too; and its reward and length metrics are means over rows. Ours are
over trajectories and memories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

import torch

from mempo.memory_scores import STATUSES, TurnScore
from mempo.step_metrics import REFERENCE
from verl_patches.advantage import AdvantageMass
from verl_patches.dropped import dropped_metrics
from verl_patches.failures import Failure, RunFailed, failure_metrics
from verl_patches.memory_credit import MemoryCredit
from verl_patches.records import SessionRecord


@dataclass
class RowCounts:
    """Rows at three places: where agents ran, what the replay buffer dropped or handed over, what went through the loss."""

    produced: int = 0
    dropped: int = 0
    transferred: int = 0
    consumed: int = 0
    padding: int = 0

    def check(self, step: int) -> None:
        """Fails the step unless every row that was not dropped was handed over and trained on."""
        if not self.produced - self.dropped == self.transferred == self.consumed:
            raise RunFailed(
                f"step {step}: {self.produced} rows produced, {self.dropped} dropped, {self.transferred} transferred, "
                f"{self.consumed} consumed: rows were lost or trained twice"
            )


@dataclass
class StepReport:
    """One step, filled as it goes.

    Attributes:
        sessions: asked for; each is in `failures`, `records` or `dropped_records`.
        dropped: questions that the replay buffer dropped, by reason.
        advantages: of every session's rows, as they were trained on.
    """

    sessions: int = 0
    failures: list[Failure] = field(default_factory=list)
    records: list[SessionRecord] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    dropped_records: list[SessionRecord] = field(default_factory=list)
    rows: RowCounts = field(default_factory=RowCounts)
    mini_batches: int = 0
    credits: list[MemoryCredit] = field(default_factory=list)
    mass: AdvantageMass = field(default_factory=AdvantageMass)
    advantages: dict[str, list[torch.Tensor]] = field(default_factory=dict)

    @property
    def scores(self) -> dict[str, list[TurnScore]]:
        return {session: scores for credit in self.credits for session, scores in credit.scores.items()}

    def metrics(self) -> dict[str, float]:
        """All of `memory/`, `trajectory/`, `rows/`, `dropped/` and `failures/`; means of nothing are left out."""
        return (
            self._rows()
            | failure_metrics(self.failures)
            | dropped_metrics(self.dropped, self.dropped_records)
            | trajectory_metrics(self.records)
            | memory_metrics(self.records, self.credits)
            | {"memory/advantage_mass_share": self.mass.memory / self.mass.total if self.mass.total else 0.0}
        )

    def _rows(self) -> dict[str, float]:
        return {
            "rows/produced": self.rows.produced,
            "rows/dropped": self.rows.dropped,
            "rows/transferred": self.rows.transferred,
            "rows/consumed": self.rows.consumed,
            "rows/padding": self.rows.padding,
            "rows/mini_batches": self.mini_batches,
            "trajectory/sessions": self.sessions,
        }


def trajectory_metrics(records: Sequence[SessionRecord]) -> dict[str, float]:
    """Means over trajectories, and how they ended."""
    if not records:
        return {}
    rewards = [record.reward for record in records]
    lengths = [trajectory_tokens(record) for record in records]
    result: dict[str, float] = {
        "trajectory/count": len(records),
        "trajectory/reward_mean": fmean(rewards),
        "trajectory/reward_std": stdev(rewards) if len(rewards) > 1 else 0.0,
        "trajectory/length_mean": fmean(lengths),
        "trajectory/length_max": max(lengths),
        "trajectory/written_mean": fmean(written_tokens(record) for record in records),
        "trajectory/turns_mean": fmean(len(record.trajectory.turns) for record in records),
        "trajectory/generate_s_mean": fmean(record.seconds["generate"] for record in records),
        "trajectory/session_s_mean": fmean(record.seconds["session"] for record in records),
    }
    for name in records[0].scores:
        result[f"trajectory/{name}"] = fmean(record.scores[name] for record in records)
    for stop, count in sorted(Counter(record.trajectory.stop.value for record in records).items()):
        result[f"trajectory/stop_{stop}"] = count
    searches = Counter(turn.observation_status for record in records for turn in record.trajectory.turns)
    for status in ("ok", "empty", "blank", "failed"):
        result[f"trajectory/search_{status}"] = searches[status]
    return result


def memory_metrics(records: Sequence[SessionRecord], credits: Sequence[MemoryCredit]) -> dict[str, float]:
    """Over memories; the counts by status add up to `memory/turns` exactly.

    `memory/reference/<name>` is 1 for what `memory/p_reference` is given: `history` or `previous_memory`.
    """
    scores = [score for credit in credits for turns in credit.scores.values() for score in turns]
    statuses = Counter(score.status for score in scores)
    result: dict[str, float] = {"memory/turns": len(scores)}
    result |= {f"memory/{status}": statuses[status] for status in STATUSES}
    result |= {
        "memory/groups": sum(credit.groups for credit in credits),
        "memory/flat_groups": sum(credit.flat_groups for credit in credits),
        "memory/gated_groups": sum(credit.gated_groups for credit in credits),
    }
    scored = [score for score in scores if score.status == "scored"]
    if scored:
        rewards = [score.reward for score in scored]
        result |= {f"{REFERENCE}{credit.reference}": 1 for credit in credits}
        result |= {
            "memory/p_memory": fmean(score.p_memory for score in scored),
            "memory/p_reference": fmean(score.p_reference for score in scored),
            "memory/reward_mean": fmean(rewards),
            "memory/reward_std": stdev(rewards) if len(rewards) > 1 else 0.0,
            "memory/share_positive": fmean(reward > 0 for reward in rewards),
            "memory/kept_tokens": fmean(score.kept for score in scored),
        }
    later = sum(score.turn > 0 for score in scores)
    credited = sum(
        bool(value)
        for credit in credits
        for kept in credit.advantages.values()
        for turn, value in kept.items()
        if turn
    )
    result |= {"memory/later_turns": later, "memory/nonzero_share": credited / later if later else 0.0}
    spans = [turn.memory_span for record in records for turn in record.trajectory.turns if turn.memory_span]
    if spans:
        result["memory/length"] = fmean(end - start for start, end in spans)
    return result


def trajectory_tokens(record: SessionRecord) -> int:
    """Tokens of the whole conversation, every turn once; in a rewritten context, of all its prompts and turns."""
    return len(record.trajectory.transcript_ids())


def written_tokens(record: SessionRecord) -> int:
    """Tokens that the model generated."""
    return sum(len(turn.response_ids) for turn in record.trajectory.turns)
