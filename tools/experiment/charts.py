"""The charts of an experiment's report: every seed as a dot, and curves of arms over steps and turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from string import ascii_uppercase as KEYS
from typing import TYPE_CHECKING, Any

from tools.experiment.protocol import Protocol
from tools.experiment.results import Run, by_arm

if TYPE_CHECKING:
    from eval.pages.chart import Chart, Point, Series

SPREAD = 0.5  # of the distance between two seeds: arms stand beside each other in it


def seed_chart(protocol: Protocol, name: str, values: Mapping[str, Mapping[int, float]]) -> Chart:
    """One dot for each run, seeds in order along x.

    Args:
        values: for each arm the outcome by seed.
    """
    from eval.pages.chart import Chart, Point, Series

    step = SPREAD / max(len(protocol.arms) - 1, 1)
    places = {seed: place for place, seed in enumerate(protocol.seeds, start=1)}
    series = [
        Series(
            KEYS[index % len(KEYS)],
            arm,
            [Point(places[seed] - SPREAD / 2 + index * step, value) for seed, value in found.items()],
            index,
        )
        for index, (arm, found) in enumerate(values.items())
        if found
    ]
    label = "seed" if protocol.seeds == list(places.values()) else "seed, in the protocol's order"
    return Chart(name, label, name, series, kind="scatter", x_ticks=list(map(float, places.values())))


def curve_chart(protocol: Protocol, runs: Sequence[Run], key: str, title: str, label: str) -> Chart | None:
    """A metric of training over the steps, one line for each arm; None if no run has it."""
    from eval.pages.chart import Chart

    series = _lines(
        protocol, runs, lambda run: zip(run["curve"]["step"], run["curve"].get(key, []), strict=False)
    )
    return Chart(title, "step", label, series) if series else None


def turn_chart(protocol: Protocol, runs: Sequence[Run]) -> Chart:
    """P(answer | memory) over the turns, one line for each arm."""
    from eval.pages.chart import Chart

    series = _lines(
        protocol, runs, lambda run: ((turn, cell["p_memory"]) for turn, cell in run["by_turn"].items())
    )
    return Chart("P(answer | memory) by turn", "turn", "P(answer)", series)


def _lines(
    protocol: Protocol, runs: Sequence[Run], points: Callable[[Run], Iterable[tuple[Any, float | None]]]
) -> list[Series]:
    """One line for each arm that has any of its runs' `points` (x, value), with its mean over seeds at each x."""
    from eval.pages.chart import Series

    series = []
    for index, arm in enumerate(protocol.arms):
        at: dict[float, list[float]] = {}
        for run in by_arm(runs, arm).values():
            for x, value in points(run):
                if value is not None:
                    at.setdefault(float(x), []).append(value)
        if at:
            series.append(Series(KEYS[index % len(KEYS)], arm, [_point(x, at[x]) for x in sorted(at)], index))
    return series


def _point(x: float, values: Sequence[float]) -> Point:
    """The mean, with ± one standard error over seeds where there are two."""
    from eval.pages.chart import Point

    mean = fmean(values)
    if len(values) < 2:
        return Point(x, mean)
    error = stdev(values) / sqrt(len(values))
    return Point(x, mean, mean - error, mean + error)
