"""Percentile-bootstrap confidence intervals of means over questions (Efron 1979)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95
SEED = 0  # the same samples give the same interval
_CHUNK = 2_000_000  # drawn questions held at a time

Interval = tuple[float, float]


def mean_intervals(
    columns: Mapping[str, Sequence[float | None]], *, level: float = LEVEL
) -> dict[str, Interval | None]:
    """The interval of each column's mean; all columns share the resamples, for the questions are what is resampled.

    Args:
        columns: one value per question, all of one length; None where a question has no such value, which leaves it out
            of that mean.

    Returns:
        (low, high) at `level`; None for a column without any value.
    """
    if not columns:
        return {}
    values = np.array([list(map(_number, column)) for column in columns.values()], dtype=np.float64).T
    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    means = []
    for counts in _resamples(len(values)):
        drawn = counts @ present  # float: shares of a mean, and 0 where a resample met no value
        with np.errstate(invalid="ignore"):
            means.append((counts @ filled) / drawn)
    stacked = np.concatenate(means)
    return {name: _interval(stacked[:, place], level) for place, name in enumerate(columns)}


def _interval(means: np.ndarray, level: float) -> Interval | None:
    known = means[~np.isnan(means)]
    if not known.size:
        return None
    tail = (1 - level) / 2 * 100
    low, high = np.percentile(known, [tail, 100 - tail])
    return float(low), float(high)


def _resamples(questions: int) -> Iterator[np.ndarray]:
    """How often each resample drew each question, as float arrays (resamples, questions), some resamples at a time."""
    generator = np.random.default_rng(SEED)
    size = max(1, min(RESAMPLES, _CHUNK // max(questions, 1)))
    for start in range(0, RESAMPLES, size):
        rows = min(size, RESAMPLES - start)
        drawn = generator.integers(questions, size=(rows, questions))
        drawn += np.arange(rows)[:, None] * questions  # one range of bins per resample
        counts = np.bincount(drawn.ravel(), minlength=rows * questions).reshape(rows, questions)
        yield counts.astype(np.float64)


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)
