"""Several rankings as one: reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from tools.search.ranking import EMPTY, Ranker, Ranking

K = 60  # the paper's constant: how little the first ranks stand out


def fuse(rankings: Sequence[Ranking], topk: int, k: float = K) -> Ranking:
    """The best `topk` documents of several rankings of one corpus.

    A document scores the sum of 1 / (k + rank) over the rankings that have it; ranks count from 1. Equal sums: the better
    best rank first, then corpus order.

    Raises:
        ValueError: for a `topk` below 1.
    """
    if topk < 1:
        raise ValueError(f"topk is {topk}, it must be at least 1")
    parts: dict[int, list[float]] = defaultdict(list)
    best_rank: dict[int, int] = {}
    for ranking in rankings:
        for rank, position in enumerate(ranking.positions.tolist(), 1):
            parts[position].append(1 / (k + rank))
            best_rank[position] = min(rank, best_rank.get(position, rank))
    # fsum rounds once, so that documents with the same ranks in another order of rankings are equal.
    sums = {position: math.fsum(values) for position, values in parts.items()}
    best = sorted(sums, key=lambda position: (-sums[position], best_rank[position], position))[:topk]
    if not best:
        return EMPTY
    return Ranking(np.array(best, np.int64), np.array([sums[position] for position in best], np.float32))


class HybridRanker:
    """Fuses what several rankers of one corpus find. Any number of threads may call it, as they may call the rankers."""

    def __init__(self, rankers: Sequence[Ranker], depth: int = 100) -> None:
        """`depth`: documents taken of each ranker, or topk if that is more.

        Raises:
            ValueError: no rankers, rankers of corpora of different sizes, or a `depth` below 1.
        """
        sizes = sorted({len(ranker) for ranker in rankers})
        if len(sizes) != 1:
            raise ValueError(
                f"rankers of one corpus are expected, got corpora of {sizes} documents; build them anew"
            )
        if depth < 1:
            raise ValueError(f"depth is {depth}, it must be at least 1")
        self._rankers = list(rankers)
        self._depth = depth
        self._size = sizes[0]

    def __len__(self) -> int:
        return self._size

    def rank(self, queries: Sequence[str], topk: int) -> list[Ranking]:
        """One ranking per query, of at most `topk` documents; shorter, or empty, where the rankers find fewer.

        Raises:
            ValueError: for a `topk` below 1.
        """
        if topk < 1:
            raise ValueError(f"topk is {topk}, it must be at least 1")
        found = [ranker.rank(queries, max(topk, self._depth)) for ranker in self._rankers]
        return [fuse(rankings, topk) for rankings in zip(*found, strict=True)]
