"""What an arm's difference to the control shows, by a rule that was there before the runs."""

from __future__ import annotations

from enum import StrEnum

from tools.experiment.statistics import Interval

RULE = (
    "An arm is better if the 95 % interval over seeds of its difference to the control lies above 0, worse if it lies below 0, "
    "equivalent within the margin if it lies between −margin and +margin, and otherwise inconclusive; the first that holds. "
    "With one seed there is no interval and nothing is concluded."
)


class Verdict(StrEnum):
    """How an arm stands against the control."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent within the margin"
    INCONCLUSIVE = "inconclusive"

    @classmethod
    def of(cls, interval: Interval | None, margin: float) -> Verdict:
        """By `RULE`."""
        if interval is None:
            return cls.INCONCLUSIVE
        low, high = interval
        if low > 0:
            return cls.BETTER
        if high < 0:
            return cls.WORSE
        return cls.EQUIVALENT if -margin <= low and high <= margin else cls.INCONCLUSIVE


def arm_phrase(
    arm: str, verdict: Verdict, difference: float | None, interval: Interval | None, n: int
) -> str:
    """One arm in the sentence of all: its verdict, difference, interval and number of seeds."""
    if difference is None:
        return f"{arm} {verdict} (no seed has both runs)"
    bounds = f", 95 % interval {interval[0]:+.3f} to {interval[1]:+.3f}" if interval else ", no interval"
    return f"{arm} {verdict} ({difference:+.3f}{bounds}, {n} {'seed' if n == 1 else 'seeds'})"
