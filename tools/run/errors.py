"""What is told to the user of a run without a traceback."""

from __future__ import annotations


class RunError(RuntimeError):
    """A run cannot start or go on; the message says why and what to do."""


class ConfigFaults(RunError):
    """A config with which no run can start.

    Attributes:
        faults: one line each, naming the key.
    """

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n  ".join([f"{len(faults)} problem(s) with this config:", *faults]))
        self.faults = faults
