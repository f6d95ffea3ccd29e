"""What a paired comparison shows, against a margin that was named beforehand."""

from __future__ import annotations

from enum import StrEnum
from math import log

MIN_CHANGED = 6  # the least number of equal changes with an exact two-sided p below 0.05: 2 / 2^6
MIN_MARGIN_QUESTIONS = -log(
    0.025
)  # "rule of three" at 97.5 %: questions · margin that let no such loss pass unseen

RULE = """B is *better* if the 95 % interval of EM(B) − EM(A) lies above 0, *worse* if it lies below −margin, *no worse than the
margin* if it lies above −margin, and otherwise it is *undecided*. Few questions show nothing: with fewer than 6 questions
whose EM changed, better and worse are undecided, and with fewer than 3.7 / margin questions, no worse is."""


class Verdict(StrEnum):
    """How the second run stands against the first."""

    BETTER = "better"
    WORSE = "worse"
    NO_WORSE = "no worse than the margin"
    UNDECIDED = "undecided"

    @classmethod
    def of(cls, low: float, high: float, *, changed: int, questions: int, margin: float) -> Verdict:
        """The verdict by `RULE`.

        Args:
            low, high: 95 % interval of the difference in EM, second minus first.
            changed: questions whose EM differs between the runs.
            margin: largest loss of EM that would not matter, from 0.
        """
        if low > 0 and changed >= MIN_CHANGED:
            return cls.BETTER
        if high < -margin and changed >= MIN_CHANGED:
            return cls.WORSE
        if low > -margin and questions * margin >= MIN_MARGIN_QUESTIONS:
            return cls.NO_WORSE
        return cls.UNDECIDED


class Equality(StrEnum):
    """Whether two runs are the same within a margin, by `eval.equivalence.RULE`."""

    EQUIVALENT = "equivalent within the margin"
    DIFFERENT = "different by more than the margin"
    UNDECIDED = "undecided"

    @classmethod
    def of(cls, low: float, high: float, *, margin: float, enough: bool, changed: bool) -> Equality:
        """The verdict.

        Args:
            low, high: interval of the difference.
            enough: whether there are questions enough to show that nothing changed.
            changed: whether questions enough changed to show that something did.
        """
        if -margin < low and high < margin:
            return cls.EQUIVALENT if enough else cls.UNDECIDED
        return cls.DIFFERENT if changed and (low > margin or high < -margin) else cls.UNDECIDED
