"""Mini-batches of whole trajectories, spread over data-parallel ranks and padded to one shape. Pure arithmetic.

verl cuts a rank's rows into equal pieces, in order, one optimizer step each. So every rank gets the same number of rows
per mini-batch, and the batch is laid out rank by rank, mini-batch by mini-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PADDING = -1


@dataclass(frozen=True)
class MiniBatchPlan:
    """Where each row goes.

    Attributes:
        mini_batches: optimizer steps per pass over the batch.
        rows_per_rank: rows of one mini-batch on one rank, padding included.
        layout: row indices, or PADDING, in the order in which verl cuts them: ranks outermost, then mini-batches.
    """

    mini_batches: int
    rows_per_rank: int
    layout: list[int]

    @property
    def padding(self) -> int:
        return self.layout.count(PADDING)


def plan_mini_batches(
    trajectories: Sequence[Sequence[int]], trajectories_per_step: int, ranks: int
) -> MiniBatchPlan:
    """Spreads trajectories over mini-batches of near-equal size (no more than `trajectories_per_step` each).

    Args:
        trajectories: the token count of each row of each trajectory, in batch order; rows are numbered through.
        trajectories_per_step: verl's `ppo_mini_batch_size` times `rollout.n`.
        ranks: data-parallel size.

    Returns:
        a plan in which every trajectory lies in one mini-batch and no mini-batch is empty.
    """
    if not trajectories or any(not rows for rows in trajectories):
        raise ValueError("mini-batches: there must be trajectories, and each must have a row")
    count = -(-len(trajectories) // trajectories_per_step)
    numbered, first = [], 0
    for rows in trajectories:
        numbered.append([(first + offset, tokens) for offset, tokens in enumerate(rows)])
        first += len(rows)
    bounds = [index * len(trajectories) // count for index in range(count + 1)]
    mini_batches = [
        [row for trajectory in numbered[start:end] for row in trajectory]
        for start, end in zip(bounds, bounds[1:], strict=False)
    ]
    rows_per_rank = max(-(-len(rows) // ranks) for rows in mini_batches)
    spread = [_spread(rows, ranks, rows_per_rank) for rows in mini_batches]
    layout = [row for rank in range(ranks) for mini_batch in spread for row in mini_batch[rank]]
    return MiniBatchPlan(count, rows_per_rank, layout)


def _spread(rows: Sequence[tuple[int, int]], ranks: int, capacity: int) -> list[list[int]]:
    """Longest row first, each to the rank with the fewest tokens that still has room; the rest is padding."""
    load, shares = [0] * ranks, [[] for _ in range(ranks)]  # type: list[int], list[list[int]]
    for row, tokens in sorted(rows, key=lambda item: (-item[1], item[0])):
        rank = min(
            (rank for rank in range(ranks) if len(shares[rank]) < capacity),
            key=lambda rank: (load[rank], rank),
        )
        shares[rank].append(row)
        load[rank] += tokens
    return [share + [PADDING] * (capacity - len(share)) for share in shares]
