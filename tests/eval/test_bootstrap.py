"""Bootstrap intervals: against a plain loop, a normal approximation, and cases that are known."""

from __future__ import annotations

import numpy as np
import pytest

from eval import bootstrap
from eval.bootstrap import mean_intervals


def test_the_interval_equals_that_of_a_plain_loop() -> None:
    values = np.random.default_rng(1).normal(3, 2, 70)
    drawn = np.random.default_rng(bootstrap.SEED)
    means = [values[drawn.integers(70, size=70)].mean() for _ in range(bootstrap.RESAMPLES)]
    low, high = mean_intervals({"x": list(values)})["x"] or (0, 0)
    assert (low, high) == pytest.approx(np.percentile(means, [2.5, 97.5]), abs=1e-9)


def test_a_share_has_about_the_interval_of_the_normal_approximation() -> None:
    values: list[float | None] = [1.0] * 240 + [0.0] * 160
    low, high = mean_intervals({"em": values})["em"] or (0, 0)
    half = 1.96 * (0.6 * 0.4 / 400) ** 0.5
    assert (low, high) == pytest.approx((0.6 - half, 0.6 + half), abs=0.006)


def test_the_same_values_give_the_same_interval_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[float | None] = [float(n % 3) for n in range(50)]
    alone = mean_intervals({"x": values})
    assert mean_intervals({"y": [0.0] * 50, "x": values})["x"] == alone["x"]
    monkeypatch.setattr(bootstrap, "_CHUNK", 50 * 7)  # some resamples at a time
    assert mean_intervals({"x": values}) == alone


def test_questions_without_a_value_stay_out_of_the_mean() -> None:
    values: list[float | None] = [float(n % 2) for n in range(40)]
    among_others = mean_intervals({"x": [*values, *[None] * 400]})["x"]
    low, high = among_others or (0, 0)
    alone = mean_intervals({"x": values})["x"] or (0, 0)
    assert (low, high) == pytest.approx(alone, abs=0.04)
    assert mean_intervals({"x": [None, None], "y": [1.0, 1.0]}) == {"x": None, "y": (1.0, 1.0)}


def test_one_question_and_no_spread_give_a_point() -> None:
    assert mean_intervals({"x": [0.25]}) == {"x": (0.25, 0.25)}
    assert mean_intervals({"x": [2.0] * 9}) == {"x": (2.0, 2.0)}
    assert mean_intervals({}) == {}
