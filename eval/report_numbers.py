"""The numbers of a report: means with errors of groups of samples and turns; as table cells and as lines of a chart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from eval.pages.chart import Point, Series
from eval.record import Record
from eval.sample import Sample


@dataclass(frozen=True)
class Mean:
    """A mean over `n` values with its standard error (0 for a single value)."""

    value: float
    error: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        spread = stdev(values) if len(values) > 1 else 0.0
        return cls(fmean(values), spread / sqrt(len(values)), len(values))

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f} ({self.n})"


def interval(summary: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """The 95 % interval `<name>_ci` of a summary, else mean ± standard error, else None."""
    if summary.get(f"{name}_ci") is not None:
        low, high = summary[f"{name}_ci"]
        return float(low), float(high)
    if summary.get(f"{name}_se") is not None:
        error = float(summary[f"{name}_se"])
        return float(summary[name]) - error, float(summary[name]) + error
    return None


def with_interval(summary: Mapping[str, Any], name: str) -> str:
    """`0.712 [0.690, 0.734]` with a confidence interval, `0.712 ± 0.011` with a standard error, `–` without a value."""
    if summary.get(name) is None:
        return "–"
    value = f"{summary[name]:.3f}"
    if summary.get(f"{name}_ci") is not None:
        low, high = summary[f"{name}_ci"]
        return f"{value} [{low:.3f}, {high:.3f}]"
    return f"{value} ± {summary[f'{name}_se']:.3f}" if summary.get(f"{name}_se") is not None else value


def token_count(summary: Mapping[str, Any], name: str) -> tuple[float, bool] | None:
    """A mean number of tokens and whether it is an estimate (over chat messages); None if the summary has neither."""
    for key, estimated in ((name, False), (f"estimated_{name}", True)):
        if summary.get(key) is not None:
            return float(summary[key]), estimated
    return None


def exact_match_by(samples: Iterable[Sample], key: str) -> dict[int, Mean]:
    """EM by a whole number of the sample (`hops`, `objectives`); samples without it are left out."""
    groups: dict[int, list[float]] = defaultdict(list)
    for sample in samples:
        if isinstance(sample.get(key), int):
            groups[sample[key]].append(float(sample["em"]))
    return {number: Mean.of(groups[number]) for number in sorted(groups)}


def memory_length(records: Iterable[Record]) -> dict[int, Mean]:
    """Tokens of the closed memories by turn, from 1."""
    return _by_turn(records, lambda turn: turn.memory_tokens)


def memory_probability(records: Iterable[Record]) -> dict[int, Mean]:
    """P_mem of the scored memories by turn, from 1."""
    return _by_turn(records, lambda turn: turn.score.p_memory if turn.score else None)


def reference_probability(records: Iterable[Record]) -> dict[int, Mean]:
    """What P_mem is compared with (P_full, or the memory before) by turn, from 1."""
    return _by_turn(records, lambda turn: turn.score.p_reference if turn.score else None)


def cells(means: Mapping[int, Mean], numbers: Sequence[int]) -> list[str]:
    """One cell per number, a dash where there is no mean."""
    return [str(means[number]) if number in means else "–" for number in numbers]


def lines(groups: Sequence[tuple[str, str, Mapping[int, Mean]]]) -> list[Series]:
    """One line per (key, name, means), with the standard errors as its band."""
    return [
        Series(
            key,
            name,
            [
                Point(x, mean.value, mean.value - mean.error, mean.value + mean.error)
                for x, mean in means.items()
            ],
            colour,
        )
        for colour, (key, name, means) in enumerate(groups)
        if means
    ]


def spread_out(items: Sequence[Any], most: int) -> list[Any]:
    """At most `most` of the items, evenly, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]


def _by_turn(records: Iterable[Record], read: Callable[[Any], float | None]) -> dict[int, Mean]:
    groups: dict[int, list[float]] = defaultdict(list)
    for record in records:
        for number, turn in enumerate(record.turns, 1):
            value = read(turn)
            if value is not None:
                groups[number].append(value)
    return {number: Mean.of(groups[number]) for number in sorted(groups)}
