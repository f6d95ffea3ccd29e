"""The memory half of a step: probes → log-probs → scores → one advantage per memory, question by question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from mempo.credit import CreditSettings, memory_advantages
from mempo.memory_scores import MemorySettings, TurnScore, plan_probes
from mempo.scoring.base import Scorer
from mempo.tokens import ChatTokens
from verl_patches.records import SessionRecord


@dataclass
class MemoryCredit:
    """What the memories of a batch earned.

    Attributes:
        scores: session → one score per turn.
        advantages: session → turn → A_mem (scored turns only).
        flat_groups: questions without any spread to learn from.
        gated_groups: questions with a spread, of which `memory.gate` left nothing.
        groups: questions.
        reference: what the memories were compared with (`memory.reference`).
    """

    scores: dict[str, list[TurnScore]] = field(default_factory=dict)
    advantages: dict[str, dict[int, float]] = field(default_factory=dict)
    flat_groups: int = 0
    gated_groups: int = 0
    groups: int = 0
    reference: str = "history"


def credit_memories(
    records: Sequence[SessionRecord],
    scorer: Scorer,
    tokens: ChatTokens,
    settings: MemorySettings,
    credit: CreditSettings,
) -> MemoryCredit:
    """Scores every memory of every trajectory in one call of the scorer."""
    plans = [
        plan_probes(
            record.trajectory, record.reference, tokens, record.probe_format, settings, name=record.session
        )
        for record in records
    ]
    logprobs = scorer.answer_logprobs([plan.probes for plan in plans])
    result = MemoryCredit(reference=settings.reference)
    groups: dict[str, list[SessionRecord]] = defaultdict(list)
    for record, plan, values in zip(records, plans, logprobs, strict=True):
        result.scores[record.session] = plan.scores(values)
        groups[record.group].append(record)
    for members in groups.values():
        earned = memory_advantages(
            [result.scores[member.session] for member in members],
            [member.reward for member in members],
            credit,
        )
        result.advantages |= {
            member.session: kept for member, kept in zip(members, earned.per_rollout, strict=True)
        }
        result.flat_groups += int(earned.flat)
        result.gated_groups += int(earned.gated)
    result.groups = len(groups)
    return result
