"""What a training process wrote to metrics.jsonl, read while it runs and afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from mempo.step_metrics import current_names

Step = dict[str, Any]


class MetricsFollower:
    """Reads the lines that were added since the last look. A file that became shorter is read from its start again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def new(self) -> list[Step]:
        """Complete lines since the last call, as one dict per step."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return []
        if size < self._offset:
            self._offset = 0
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        return [step for line in complete.splitlines() if (step := _parse(line)) is not None]


def read_steps(path: Path) -> list[Step]:
    """All steps in order, the last record of each; lines that a kill cut short are left out."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    steps = {step["step"]: step for line in lines if (step := _parse(line)) is not None}
    return [steps[number] for number in sorted(steps)]


def values(steps: list[Step], name: str) -> list[float]:
    """One metric over the steps that have it."""
    return [float(step[name]) for step in steps if step.get(name) is not None]


def total(steps: list[Step], name: str) -> int | float:
    """Sum of a count over the steps, whole where every value is."""
    whole = sum(values(steps, name))
    return int(whole) if whole == int(whole) else whole


def mean(numbers: list[float]) -> float | None:
    """The mean, or None of nothing."""
    return fmean(numbers) if numbers else None


def reward_change(rewards: list[float], width: int = 5) -> dict[str, float | None]:
    """Mean reward of the first and the last `width` steps, and the standard error of their difference.

    With fewer than 2 * `width` steps, halves are compared; the standard error needs two steps on each side.
    """
    width = min(width, len(rewards) // 2)
    first, last = rewards[:width], rewards[len(rewards) - width :]
    error = (
        (stdev(first) ** 2 / len(first) + stdev(last) ** 2 / len(last)) ** 0.5
        if min(len(first), len(last)) > 1
        else None
    )
    return {"first5": mean(first), "last5": mean(last), "se": error}


def edge_means(rewards: list[float], width: int) -> dict[str, float | None]:
    """Mean reward of the first and of the last `width` steps (they overlap in a short run)."""
    return {f"first{width}": mean(rewards[:width]), f"last{width}": mean(rewards[-width:])}


def _parse(line: bytes) -> Step | None:
    try:
        step = json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    return current_names(step) if isinstance(step, dict) and isinstance(step.get("step"), int) else None
