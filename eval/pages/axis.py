"""An axis of a chart: from values to places, with round ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10


@dataclass(frozen=True)
class Axis:
    """Values `low` to `high` lie on the pixels `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    ticks: Sequence[float]

    @classmethod
    def over(
        cls, values: Sequence[float], start: float, end: float, *, zero: bool, whole: bool = False
    ) -> Axis:
        """An axis that holds all values, with ticks at round ones.

        Args:
            zero: 0 is on it.
            whole: ticks at whole numbers only.
        """
        low, high = min(values), max(values)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        if low == high:
            low, high = low - max(abs(low) * 0.1, 0.5), high + max(abs(high) * 0.1, 0.5)
        room = (high - low) * 0.04
        low, high = low - (room if low else 0.0), high + (room if high else 0.0)
        step = _round_step((high - low) / 5)
        step = max(step, 1.0) if whole else step
        first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
        return cls(low, high, start, end, [index * step for index in range(first, last + 1)])

    @classmethod
    def at(cls, ticks: Sequence[float], start: float, end: float) -> Axis:
        """An axis with a tick for each of these values, and half a step of room on both sides."""
        room = max((ticks[-1] - ticks[0]) * 0.06, 0.5 if len(ticks) == 1 else 0.0)
        return cls(ticks[0] - room, ticks[-1] + room, start, end, ticks)

    def place(self, value: float) -> float:
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)

    def label(self, tick: float) -> str:
        """The tick as text, all of an axis with the same number of decimals."""
        steps = [after - before for before, after in pairwise(self.ticks)]
        decimals = max(0, -floor(log10(min(steps)) + 1e-9)) if steps else 0
        return f"{tick:,.{decimals}f}"


def _round_step(about: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least `about`."""
    power = 10.0 ** floor(log10(about))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= about * (1 - 1e-9))
