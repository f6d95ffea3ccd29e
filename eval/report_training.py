"""The part of a report about training runs: their curves."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from eval.pages.chart import Chart, Point, Series
from eval.pages.section import Section
from eval.pages.table import Table
from eval.report_numbers import spread_out
from eval.run_folder import TrainingRun
from mempo.step_metrics import reference_name

P_REFERENCE = "memory/p_reference"
SHOWN_STEPS = 20  # in tables; charts show all


def training(runs: Sequence[TrainingRun]) -> Section | None:
    """Reward, EM, answer probability and memory length over the steps."""
    runs = [run for run in runs if run.steps]
    if not runs:
        return None
    charts, details = [], []
    for title, y_label, metrics in (
        ("Training reward", "reward", (("trajectory/reward_mean", "reward"),)),
        ("Training EM", "EM", (("trajectory/em", "EM"),)),
        (
            "Answer probability in training",
            "P(answer)",
            (("memory/p_memory", "memory alone"), (P_REFERENCE, "its reference")),
        ),
        ("Memory length in training", "tokens", (("memory/length", "tokens"),)),
    ):
        curves = [
            (f"{run.key}{mark}", f"{run.name}: {_label(run, metric, label)}", _curve(run, metric))
            for run in runs
            for mark, (metric, label) in zip(("", "′"), metrics, strict=False)
        ]
        series = [
            Series(key, name, points, colour) for colour, (key, name, points) in enumerate(curves) if points
        ]
        if series:
            charts.append(Chart(title, "step", y_label, series))
            details.append(_curve_table(title, series))
    if not charts:
        return None
    note = (
        "Means over the trajectories of each step, which are sampled, not greedy. The band of the reward is ± its "
        f"standard error. Tables show at most {SHOWN_STEPS} steps of a run, charts all."
    )
    return Section("Training", note, charts=charts, details=details)


def _label(run: TrainingRun, metric: str, label: str) -> str:
    """A metric's name; runs differ in what they compare memories with."""
    return reference_name(run.steps) if metric == P_REFERENCE else label


def _curve(run: TrainingRun, metric: str) -> list[Point]:
    points = []
    for step in run.steps:
        value = step.get(metric)
        if value is None:
            continue
        spread, count = step.get("trajectory/reward_std"), step.get("trajectory/count")
        if metric == "trajectory/reward_mean" and spread is not None and count:
            error = spread / sqrt(count)
            points.append(Point(step["step"], value, value - error, value + error))
        else:
            points.append(Point(step["step"], value))
    return points


def _curve_table(title: str, series: Sequence[Series]) -> Table:
    steps = sorted({int(point.x) for line in series for point in line.points})
    values = [{int(point.x): point.y for point in line.points} for line in series]
    rows = [
        [str(step), *(f"{value[step]:.3f}" if step in value else "–" for value in values)]
        for step in spread_out(steps, SHOWN_STEPS)
    ]
    return Table(title, ("step", *(f"{line.key} {line.name}" for line in series)), rows)
