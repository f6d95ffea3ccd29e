"""A progress bar for the terminal; plain lines where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tools.sft.train import Report

LINES = 10  # reports of a run that is not on a terminal


@contextmanager
def bar(title: str, console: Console | None = None) -> Iterator[Report]:
    """Yields what `train` calls after each step."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total, loss: _line(console, title, done, total, loss)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("loss {task.fields[loss]:.3f}"), console=console) as progress:
        task = progress.add_task(title, total=None, loss=float("nan"))
        yield lambda done, total, loss: progress.update(task, completed=done, total=total, loss=loss)


def _line(console: Console, title: str, done: int, total: int, loss: float) -> None:
    if done % max(1, total // LINES) == 0:
        console.print(f"{title}: step {done} of {total}, loss {loss:.3f}", highlight=False)
