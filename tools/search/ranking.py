"""What every kind of index does: rank positions of a corpus for queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Ranking:
    """The best documents for one query, best first.

    Attributes:
        positions: [k] int64, each once; where the documents stand in the corpus.
        scores: [k] float32, falling.
    """

    positions: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.positions)


class Ranker(Protocol):
    """Ranks a fixed corpus. Any number of threads may call it."""

    def __len__(self) -> int:
        """Documents of the corpus."""
        ...

    def rank(self, queries: Sequence[str], topk: int) -> list[Ranking]:
        """One ranking per query, of at most `topk` documents; shorter, or empty, where fewer match.

        Raises:
            ValueError: for a `topk` below 1.
        """
        ...


EMPTY = Ranking(np.empty(0, np.int64), np.empty(0, np.float32))
