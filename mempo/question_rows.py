"""Rows of questions held against the rules of `mempo.task`: every fault with its row, the first few and their number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mempo.cells import record
from mempo.task import Reference, Task

SHOWN = 5  # faults that are written out; a file with one usually has many


class RowFaults:
    """What is wrong with the rows of one file. Rows are counted from 0.

    Attributes:
        count: faults in all.
        questions: id → question of the rows without one.
    """

    def __init__(self, file: str | Path) -> None:
        self.file, self.count = file, 0
        self.questions: dict[str, str] = {}
        self._shown: list[str] = []
        self._rows: dict[str, int] = {}  # id → row

    def __bool__(self) -> bool:
        return self.count > 0

    @property
    def lines(self) -> list[str]:
        """One line per fault, and one that counts them if they are not all written out."""
        if self.count <= len(self._shown):
            return list(self._shown)
        return [*self._shown, f"{self.file}: {self.count} faults in all, the first {SHOWN} are named above"]

    def add(self, row: int, name: str | None, what: str) -> None:
        """Counts one fault of a row, whose task's id is `name` as far as it has one."""
        self.count += 1
        if len(self._shown) < SHOWN:
            told = f" ({name!r})" if name else ""
            self._shown.append(f"{self.file}, row {row}{told}: {what}")

    def check(self, row: int, columns: Mapping[str, Any]) -> tuple[Task, Reference] | None:
        """Takes the columns `task` and `reference` of a row; None if it has a fault."""
        name = self.name(columns)
        before = self.count
        task = reference = None
        try:
            task = Task.from_columns(record(columns.get("task"), "task"))
        except ValueError as error:
            self.add(row, name, str(error))
        try:
            reference = Reference.from_columns(record(columns.get("reference"), "reference"))
        except ValueError as error:
            self.add(row, name, str(error))
        if task is not None:
            first = self._rows.setdefault(task.id, row)
            if first != row:
                self.add(row, name, f"task.id is that of row {first} too: give every row an id of its own")
        if task is not None and reference is not None and len(reference.answers) != task.objectives:
            self.add(
                row,
                name,
                f"task.objectives is {task.objectives} objectives but reference.answers has {len(reference.answers)} lists of "
                "answers: write one list per objective",
            )
        if self.count > before or task is None or reference is None:
            return None
        self.questions[task.id] = task.question
        return task, reference

    @staticmethod
    def name(columns: Mapping[str, Any]) -> str | None:
        """The id of a row's task, as far as it has one."""
        task = columns.get("task")
        name = task.get("id") if isinstance(task, Mapping) else None
        return name if isinstance(name, str) else None
