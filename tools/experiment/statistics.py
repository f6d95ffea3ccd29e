"""Intervals of a mean difference over paired seeds: Student's t, and a bootstrap over seeds and questions."""

from __future__ import annotations

from collections.abc import Sequence
from math import atan, cos, pi, sin, sqrt
from statistics import fmean, stdev

import numpy as np

LEVEL = 0.95
RESAMPLES = 4000
SEED = 0  # the same results give the same interval

Interval = tuple[float, float]


def t_within(t: float, freedom: int) -> float:
    """P(|T| <= t) for Student's t with a whole number of degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4)."""
    angle = atan(t / sqrt(freedom))
    square = cos(angle) ** 2
    odd = freedom % 2
    term = cos(angle) if odd else 1.0
    total = 0.0
    for index in range(freedom // 2):  # each power of the cosine up to freedom - 2
        total += term
        term *= square * (2 * index + 1 + odd) / (2 * index + 2 + odd)
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total


def t_quantile(freedom: int, level: float = LEVEL) -> float:
    """The t with P(|T| <= t) = level."""
    low, high = 0.0, 1.0
    while t_within(high, freedom) < level:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, freedom) < level else (low, middle)
    return high


def paired_interval(differences: Sequence[float]) -> Interval | None:
    """95 % of the mean over seeds, by Student's t; None with fewer than two seeds.

    Args:
        differences: arm less control, one for each seed.
    """
    count = len(differences)
    if count < 2:
        return None
    half = t_quantile(count - 1) * stdev(differences) / sqrt(count)
    mean = fmean(differences)
    return mean - half, mean + half


def nested_interval(seeds: Sequence[Sequence[float]]) -> Interval | None:
    """95 % of the mean over seeds by a percentile bootstrap that draws seeds, then questions of each drawn seed.

    Of few seeds it is too narrow (seeds drawn with replacement vary less than seeds do); Student's t is not.

    Args:
        seeds: for each seed, arm less control of each question.

    Returns:
        None with fewer than two seeds, or where a seed has no questions.
    """
    count = len(seeds)
    if count < 2 or any(not len(questions) for questions in seeds):
        return None
    generator = np.random.default_rng(SEED)
    drawn = generator.integers(count, size=(RESAMPLES, count))
    means = np.empty(drawn.shape)
    for seed, questions in enumerate(seeds):
        values = np.asarray(questions, dtype=np.float64)
        places = np.flatnonzero(drawn == seed)
        for part in np.array_split(places, max(1, len(places) * len(values) // 2_000_000)):
            means.flat[part] = values[generator.integers(len(values), size=(len(part), len(values)))].mean(1)
    tail = (1 - LEVEL) / 2 * 100
    low, high = np.percentile(means.mean(1), [tail, 100 - tail])
    return float(low), float(high)
