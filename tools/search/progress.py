"""Progress of a build, one bar per step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """A function (step, done, of how many) that draws; on standard error, and only where somebody looks."""
    bars: dict[str, TaskID] = {}
    columns = (TextColumn("{task.description:10}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as drawing:

        def progress(step: str, done: int, total: int) -> None:
            if step not in bars:
                bars[step] = drawing.add_task(step, total=total)
            drawing.update(bars[step], completed=done, total=total)

        yield progress
