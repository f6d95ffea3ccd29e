"""How far an evaluation is, with the scores so far: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eval.sample import Sample

PLAIN_EVERY_S = 15.0


class EvalProgress:
    """Counts samples; use as a context manager and call `add` for each."""

    def __init__(self, console: Console, title: str, total: int, done: Sequence[Sample] = ()) -> None:
        self._console, self._title, self._total = console, title, total
        self._count = self._failed = 0
        self._em = self._f1 = 0.0
        self._told = time.monotonic()
        for sample in done:
            self._note(sample)
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[scores]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=total, completed=self._count, scores=self._scores())

    def __enter__(self) -> EvalProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def add(self, sample: Sample) -> None:
        """One more sample."""
        self._note(sample)
        self._bar.update(self._task, completed=self._count, scores=self._scores())
        due = self._count == self._total or time.monotonic() - self._told >= PLAIN_EVERY_S
        if due and not self._console.is_terminal:
            self._told = time.monotonic()
            self._console.print(f"{self._title}: {self._count}/{self._total}  {self._scores()}")

    def _note(self, sample: Sample) -> None:
        self._count += 1
        self._em += sample["em"]
        self._f1 += sample["f1"]
        self._failed += sample["failure"] is not None

    def _scores(self) -> str:
        count = max(self._count, 1)
        failed = f"  failed {self._failed}" if self._failed else ""
        return f"EM {self._em / count:.3f}  F1 {self._f1 / count:.3f}{failed}"
