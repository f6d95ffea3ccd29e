"""Intervals over seeds, and the verdict's rule."""

from __future__ import annotations

import numpy as np
import pytest

from tools.experiment.statistics import nested_interval, paired_interval, t_quantile, t_within
from tools.experiment.verdict import Verdict


@pytest.mark.parametrize(
    ("freedom", "expected"),
    # Two-sided 95 % points of Student's t, as every table has them.
    [
        (1, 12.7062),
        (2, 4.3027),
        (3, 3.1824),
        (4, 2.7764),
        (7, 2.3646),
        (8, 2.3060),
        (9, 2.2622),
        (30, 2.0423),
        (1000, 1.9623),
    ],
)
def test_quantiles_are_those_of_the_tables(freedom: int, expected: float) -> None:
    assert t_quantile(freedom) == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize("freedom", [1, 2, 5, 6])
def test_the_distribution_is_that_of_drawn_means(freedom: int) -> None:
    drawn = np.random.default_rng(0).standard_t(freedom, 200_000)
    for t in (0.3, 1.0, 2.5):
        assert t_within(t, freedom) == pytest.approx((np.abs(drawn) <= t).mean(), abs=0.005)


def test_the_paired_interval_is_students() -> None:
    # mean 0.03, standard deviation 0.01, n 3: half width 4.30265 * 0.01 / sqrt(3)
    assert paired_interval([0.02, 0.03, 0.04]) == pytest.approx(
        (0.03 - 0.0248414, 0.03 + 0.0248414), abs=1e-6
    )
    assert paired_interval([0.02]) is None
    assert paired_interval([]) is None


def test_the_paired_interval_holds_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(2000):
        interval = paired_interval(list(generator.normal(0.2, 1.0, 5)))
        assert interval is not None
        held += interval[0] <= 0.2 <= interval[1]
    assert held / 2000 == pytest.approx(0.95, abs=0.015)


def test_the_nested_interval_varies_with_seeds_and_with_questions() -> None:
    generator = np.random.default_rng(2)

    def width(seeds: float, questions: float) -> float:
        values = [
            list(shift + generator.normal(0, questions, 100)) for shift in np.linspace(-seeds, seeds, 6)
        ]
        interval = nested_interval(values)
        assert interval is not None
        return interval[1] - interval[0]

    assert width(0.0, 0.0) == 0.0
    # Seeds at -1, -0.6 … 1 vary by 0.683 (population): 3.92 * 0.683 / sqrt(6)
    assert width(1.0, 0.0) == pytest.approx(1.09, abs=0.1)
    # Questions alone: at least 3.92 * 1 / sqrt(600), and their draw moves the seeds' means too
    assert width(0.0, 1.0) == pytest.approx(0.16 * 2**0.5, abs=0.06)
    assert nested_interval([[0.1, 0.2]]) is None
    assert nested_interval([[0.1], []]) is None


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((0.01, 0.03), Verdict.BETTER),
        ((0.001, 0.01), Verdict.BETTER),  # also where it is less than the margin
        ((-0.03, -0.01), Verdict.WORSE),
        ((-0.02, 0.02), Verdict.EQUIVALENT),
        ((0.0, 0.0), Verdict.EQUIVALENT),
        ((-0.021, 0.01), Verdict.INCONCLUSIVE),
        ((-0.01, 0.03), Verdict.INCONCLUSIVE),
        (None, Verdict.INCONCLUSIVE),
    ],
)
def test_the_verdict_is_by_the_interval_over_seeds(
    interval: tuple[float, float] | None, expected: Verdict
) -> None:
    assert Verdict.of(interval, 0.02) is expected
