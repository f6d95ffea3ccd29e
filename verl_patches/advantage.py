"""From verl's outcome advantages to the final ones, row by row. Pure tensor arithmetic.

verl normalises one outcome per trajectory and copies it to the trajectory's rows. Here a lone survivor of its group
loses its raw reward, rows share or split the outcome, and the memories' advantages come on top.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from mempo.credit import add_memory_advantage, row_share


@dataclass(frozen=True)
class RowAdvantage:
    """One training row.

    Attributes:
        session: the trajectory it belongs to.
        outcome: [L] verl's advantage on every response token (0 where the mask is 0).
        mask: [L] 1 on tokens the model generated.
        spans: (turn, start, end) of the memories in the response.
    """

    session: str
    outcome: torch.Tensor
    mask: torch.Tensor
    spans: Sequence[tuple[int, int, int]]


@dataclass(frozen=True)
class AdvantageMass:
    """Sum of |advantage| over trained tokens, and the part of it on memory tokens."""

    total: float = 0.0
    memory: float = 0.0

    def __add__(self, other: AdvantageMass) -> AdvantageMass:
        return AdvantageMass(self.total + other.total, self.memory + other.memory)


def lone_sessions(group_of: Mapping[str, str]) -> set[str]:
    """Sessions (session → question) that are the only survivor of their question."""
    sizes = Counter(group_of.values())
    return {session for session, group in group_of.items() if sizes[group] == 1}


def final_advantages(
    rows: Sequence[RowAdvantage],
    *,
    lone: set[str],
    row_credit: str,
    memory: Mapping[str, dict[int, float]],
    weight: float,
) -> list[torch.Tensor]:
    """[L] per row: outcome (0 for a lone survivor, whole or split over the rows) plus weight · A_mem on memory tokens.

    With weight 0, no lone survivor and `share`, every tensor equals verl's bit for bit.

    Args:
        memory: session → turn → A_mem.
    """
    count = Counter(row.session for row in rows)
    finals = []
    for row in rows:
        outcome = torch.zeros_like(row.outcome) if row.session in lone else row.outcome
        share = row_share(row_credit, count[row.session])
        if share != 1.0:
            outcome = outcome * share
        finals.append(add_memory_advantage(outcome, row.mask, row.spans, memory.get(row.session, {}), weight))
    return finals


def advantage_mass(rows: Iterable[RowAdvantage], finals: Iterable[torch.Tensor]) -> AdvantageMass:
    """How much of what the update sees lies on memory tokens."""
    mass = AdvantageMass()
    for row, final in zip(rows, finals, strict=True):
        size = (final * row.mask).abs()
        on_memory = sum(float(size[start:end].sum()) for _, start, end in row.spans)
        mass += AdvantageMass(float(size.sum()), on_memory)
    return mass
