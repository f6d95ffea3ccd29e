"""Numbers of an experiment as cells of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from tools.experiment.protocol import Protocol
from tools.experiment.results import Run, by_arm, outcome


def difference_cells(found: Mapping[str, Any]) -> list[str]:
    difference = found["difference"]
    return [
        "–" if difference is None else f"{difference:+.3f}",
        bounds(found["ci"]),
        bounds(found["ci_nested"]),
    ]


def mean_cells(protocol: Protocol, runs: Sequence[Run], arm: str, name: str) -> list[str]:
    """How many runs have the outcome, of how many, and their mean."""
    values = list(by_seed(runs, arm, name).values())
    return [
        f"{len(values)} of {len(protocol.seeds_of(arm))}",
        number(fmean(values) if values else None),
    ]


def by_seed(runs: Sequence[Run], arm: str, name: str) -> dict[int, float]:
    found = {seed: outcome(run, name) for seed, run in by_arm(runs, arm).items()}
    return {seed: value for seed, value in found.items() if value is not None}


def bounds(interval: Sequence[float] | None) -> str:
    return f"{interval[0]:+.3f} to {interval[1]:+.3f}" if interval else "–"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def average(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{fmean(known):,.1f}" if known else "–"
