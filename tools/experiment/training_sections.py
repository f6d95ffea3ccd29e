"""The parts of an experiment's report about training: curves, memories by turn, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tools.experiment.cells import average, number
from tools.experiment.charts import curve_chart, turn_chart
from tools.experiment.protocol import Protocol
from tools.experiment.results import Run, by_arm

if TYPE_CHECKING:
    from eval.pages.section import Section

CURVES = (
    ("reward", "Training reward", "reward"),
    ("p_memory", "P(answer | memory) in training", "P(answer)"),
    ("p_reference", "P(answer | reference) in training", "P(answer)"),
    ("memory_length", "Memory length in training", "tokens"),
)
SHOWN_STEPS = 16  # in tables; charts show all


def training_section(protocol: Protocol, runs: Sequence[Run]) -> Section | None:
    from eval.pages.section import Section

    charts, details = [], []
    for key, title, label in CURVES:
        chart = curve_chart(protocol, runs, key, title, label)
        if chart is not None:
            charts.append(chart)
            details.append(_curve_table(title, chart))
    if not charts:
        return None
    note = (
        "Means over the seeds of an arm; the band is ± one standard error over seeds. The tables show at most "
        f"{SHOWN_STEPS} steps."
    )
    return Section("Learning curves", note, charts=charts, details=details)


def _curve_table(title: str, chart: Any) -> Any:
    from eval.pages.table import Table
    from eval.report_numbers import spread_out

    values = [{point.x: point.y for point in series.points} for series in chart.series]
    steps = spread_out(sorted({step for line in values for step in line}), SHOWN_STEPS)
    rows = [[f"{step:.0f}", *(number(line.get(step)) for line in values)] for step in steps]
    return Table(title, ("step", *(series.name for series in chart.series)), rows)


def by_turn_section(protocol: Protocol, runs: Sequence[Run]) -> Section | None:
    from eval.pages.section import Section
    from eval.pages.table import Table

    rows = []
    for arm in protocol.arms:
        found = by_arm(runs, arm)
        for turn in sorted({int(turn) for run in found.values() for turn in run["by_turn"]}):
            cells = [run["by_turn"][str(turn)] for run in found.values() if str(turn) in run["by_turn"]]
            rows.append(
                [
                    arm,
                    str(turn),
                    *(number(fmean(cell[key] for cell in cells)) for key in ("p_memory", "p_reference")),
                    str(sum(cell["n"] for cell in cells)),
                ]
            )
    if not rows:
        return None
    headings = ("arm", "turn", "P(answer | memory)", "P(answer | reference)", "memories")
    note = "Of the trajectories that each run stored in the last quarter of its steps; means over seeds."
    chart = turn_chart(protocol, runs)
    return Section("What memories hold, by turn", note, [Table("By turn", headings, rows, names=2)], [chart])


def costs_section(protocol: Protocol, runs: Sequence[Run]) -> Section | None:
    from eval.pages.section import Section
    from eval.pages.table import Table

    rows = []
    for arm in protocol.arms:
        found = list(by_arm(runs, arm).values())
        if found:
            lengths = [run["curve"].get("memory_length", [None])[-1] for run in found]
            tokens = [
                [run["after"][mode].get(key) for run in found]
                for mode in protocol.modes
                for key in ("total_tokens", "response_tokens")
            ]
            times = [[run["timing"].get(key) for run in found] for key in ("step_s", "train_s")]
            rows.append([arm, *(average(values) for values in (lengths, *tokens, *times))])
    if not rows:
        return None
    per_mode = [
        f"{mode}: {what} per question" for mode in protocol.modes for what in ("tokens", "tokens written")
    ]
    headings = ("arm", "memory length", *per_mode, "seconds per step", "seconds of training")
    note = (
        "Memory length in tokens at the end of training; tokens in the evaluation after it. Means over seeds."
    )
    return Section("Costs", note, [Table("Tokens and seconds", headings, rows)])
