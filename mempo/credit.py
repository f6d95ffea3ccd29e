"""Rewards → advantages: the outcome over the rollouts of a question, the memories over their scored turns.

A(token) = A_outcome + w · A_mem(t)   if the token lies in the memory of turn t, else A_outcome
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mempo.memory_scores import TurnScore

EPSILON = 1e-6
FLAT_STD = 1e-4
MIN_BY_TURN = 4

BASELINES = ("pooled", "by_turn")
GATES = ("always", "on_success")
ROW_CREDITS = ("share", "split")


@dataclass(frozen=True)
class CreditSettings:
    """How memory rewards become advantages; the names are those of the `memory.*` config.

    Attributes:
        baseline: `pooled`: mean and std over every scored turn of every rollout of the question (published);
            `by_turn`: over the same turn index where it has at least 4 values, else the pool.
        gate: `always` (published), or `on_success`: only trajectories with a reward above 0 keep memory credit, so of
            several objectives one right answer is enough.
    """

    baseline: str = "pooled"
    gate: str = "always"

    def __post_init__(self) -> None:
        if self.baseline not in BASELINES:
            raise ValueError(f"memory.baseline is {self.baseline!r}; known are {', '.join(BASELINES)}")
        if self.gate not in GATES:
            raise ValueError(f"memory.gate is {self.gate!r}; known are {', '.join(GATES)}")


@dataclass(frozen=True)
class MemoryAdvantages:
    """What the memories of one question earned.

    Attributes:
        per_rollout: turn index → advantage (scored turns only).
        flat: there was no spread to learn from.
        gated: there was, but the gate left nothing of it.
    """

    per_rollout: list[dict[int, float]]
    flat: bool
    gated: bool


def memory_advantages(
    group: Sequence[Sequence[TurnScore]], rewards: Sequence[float], settings: CreditSettings
) -> MemoryAdvantages:
    """Normalises the memory rewards of one question's rollouts: (R − mean) / (std + 1e-6), unbiased std.

    A pool of one value, or with std below 1e-4, gives zeros.

    Args:
        group: the turn scores of each rollout.
        rewards: the outcome of each rollout; read only by the gate.
    """
    if len(group) != len(rewards):
        raise ValueError(f"credit: {len(rewards)} outcomes for {len(group)} rollouts")
    pools: dict[int | None, list[float]] = {None: []}
    for scores in group:
        for score in scores:
            if score.status == "scored":
                pools[None].append(score.reward)
                pools.setdefault(score.turn, []).append(score.reward)
    by_turn = settings.baseline == "by_turn"
    per_rollout: list[dict[int, float]] = []
    spread = False
    for scores, reward in zip(group, rewards, strict=True):
        kept: dict[int, float] = {}
        for score in scores:
            if score.status == "scored":
                own = by_turn and len(pools[score.turn]) >= MIN_BY_TURN
                advantage = _standardised(score.reward, pools[score.turn if own else None])
                spread = spread or bool(advantage)
                kept[score.turn] = advantage if settings.gate == "always" or reward > 0 else 0.0
        per_rollout.append(kept)
    left = any(value for kept in per_rollout for value in kept.values())
    return MemoryAdvantages(per_rollout, flat=not spread, gated=spread and not left)


def _standardised(value: float, pool: Sequence[float]) -> float:
    if len(pool) < 2:
        return 0.0
    values = torch.tensor(pool, dtype=torch.float64)
    std = float(values.std(unbiased=True))
    return 0.0 if std < FLAT_STD else (value - float(values.mean())) / (std + EPSILON)


def outcome_advantages(rewards: torch.Tensor) -> torch.Tensor:
    """GRPO over the surviving rollouts of one question: [n] float32 rewards → [n] advantages (as verl computes it).

    A lone survivor gets 0: it has nothing to be compared with (verl would train on its raw reward).
    """
    if len(rewards) < 2:
        return torch.zeros_like(rewards)
    return (rewards - torch.mean(rewards)) / (torch.std(rewards) + EPSILON)


def row_share(row_credit: str, rows: int) -> float:
    """The part of a trajectory's outcome advantage that each of its rows gets: `share` all of it, `split` 1/rows."""
    if row_credit not in ROW_CREDITS:
        raise ValueError(f"memory.row_credit is {row_credit!r}; known are {', '.join(ROW_CREDITS)}")
    return 1.0 if row_credit == "share" else 1.0 / rows


def add_memory_advantage(
    advantages: torch.Tensor,
    response_mask: torch.Tensor,
    spans: Sequence[tuple[int, int, int]],
    per_turn: dict[int, float],
    weight: float,
) -> torch.Tensor:
    """Adds w · A_mem(t) on the trained tokens of each memory of one row.

    Args:
        advantages: [L] outcome advantages over the row's response.
        response_mask: [L], 1 on tokens the model generated; a forced prefix is 0 and stays out.
        spans: (turn, start, end) of the row's memories.
        per_turn: turn → A_mem; turns without one add nothing.

    Returns:
        [L]; equal to `advantages` bit for bit if `weight` is 0.
    """
    if weight == 0:
        return advantages
    result = advantages.clone()
    trained = response_mask.bool()
    for turn, start, end in spans:
        if per_turn.get(turn):
            part = result[start:end]
            result[start:end] = torch.where(trained[start:end], part + weight * per_turn[turn], part)
    return result
