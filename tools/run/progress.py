"""What a user sees of a run: one line per stage, and a live line of the training steps (plain lines off a terminal)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from tools.run.metrics import Step, read_steps

SHOWN = (
    # name in metrics.jsonl, what the display calls it, format
    ("trajectory/reward_mean", "reward", "{:.3f}"),
    ("trajectory/em", "EM", "{:.3f}"),
    ("memory/p_memory", "P_mem", "{:.2f}"),
    ("memory/p_reference", "P_ref", "{:.2f}"),
    ("memory/nonzero_share", "credited", "{:.0%}"),
    ("failures/total", "failed", "{:.0f}"),
    ("timing_s/step", "s/step", "{:.1f}"),
)
WAITING_EVERY_S = 30.0


class Teller:
    """Prints lines with the seconds since the start; `say` is what stages get."""

    def __init__(self, console: Console) -> None:
        self.console, self._start = console, time.monotonic()

    def say(self, line: str) -> None:
        """One line. Markup is not read: paths and error texts hold brackets."""
        self.console.print(Text(f"[{time.monotonic() - self._start:6.0f} s] {line}"), soft_wrap=True)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start


def step_line(step: Step, total: int) -> str:
    """A finished step in one line, with those metrics that it has."""
    parts = [
        f"{label} {form.format(step[name])}"
        for name, label, form in SHOWN
        if isinstance(step.get(name), int | float)
    ]
    return f"step {step['step']}/{total}  " + "  ".join(parts)


@contextmanager
def training_display(teller: Teller, metrics: Path, total: int) -> Iterator[Callable[[list[Step]], None]]:
    """Yields what takes the new steps; call it often, also with nothing new."""
    done = read_steps(metrics)
    bar = Progress(
        TextColumn("[bold]training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[line]}"),
        console=teller.console,
        disable=not teller.console.is_terminal,
    )
    first = done[-1]["step"] if done else 0
    task = bar.add_task("training", total=total, completed=first, line="starting Ray, the trainer and vLLM")
    told = time.monotonic()

    def take(steps: list[Step]) -> None:
        nonlocal told
        now = time.monotonic()
        for step in steps:
            line = step_line(step, total)
            bar.update(task, completed=step["step"], line=line.partition("  ")[2])
            if not teller.console.is_terminal:
                teller.say(line)
            told = now
        if not teller.console.is_terminal and now - told > WAITING_EVERY_S:
            teller.say("training: still at work")
            told = now

    with bar:
        yield take
