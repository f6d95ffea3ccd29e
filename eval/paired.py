"""Two runs over the same questions: which answers only one of them got right, and whether that can be chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb

from eval.errors import EvalError


@dataclass(frozen=True)
class Paired:
    """Counts of right answers; `p` is the one-sided exact McNemar p for after > before."""

    both: int
    only_before: int
    only_after: int
    neither: int
    p: float

    @property
    def n(self) -> int:
        return self.both + self.only_before + self.only_after + self.neither

    @property
    def difference(self) -> float:
        """Share of right answers after minus before."""
        return (self.only_after - self.only_before) / self.n if self.n else 0.0


def mcnemar_greater(only_before: int, only_after: int) -> float:
    """P(X >= only_after) for X ~ Binomial(only_before + only_after, 1/2); 1.0 without a changed answer."""
    changed = only_before + only_after
    # Whole numbers until the end: exact for any count, and no dependency.
    ways = total = comb(changed, only_after)
    for k in range(only_after, changed):
        ways = ways * (changed - k) // (k + 1)
        total += ways
    return total / 2**changed


def mcnemar_two_sided(only_before: int, only_after: int) -> float:
    """Twice the smaller one-sided p, at most 1: whether the two runs differ at all."""
    return min(
        1.0, 2 * min(mcnemar_greater(only_before, only_after), mcnemar_greater(only_after, only_before))
    )


def compare(before: Mapping[str, bool], after: Mapping[str, bool]) -> Paired:
    """Pairs two runs by question id.

    Raises:
        EvalError: if they did not answer the same questions.
    """
    odd = sorted(before.keys() ^ after.keys())
    if odd:
        raise EvalError(f"{len(odd)} questions are in one run only, e.g. {odd[0]!r}: a pair needs both")
    counts = {(b, a): 0 for b in (False, True) for a in (False, True)}
    for name, right in before.items():
        counts[bool(right), bool(after[name])] += 1
    only_before, only_after = counts[True, False], counts[False, True]
    return Paired(
        both=counts[True, True],
        only_before=only_before,
        only_after=only_after,
        neither=counts[False, False],
        p=mcnemar_greater(only_before, only_after),
    )
