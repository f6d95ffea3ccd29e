"""Seconds of a run over all its starts; survives a kill to within a few seconds."""

from __future__ import annotations

import json
import time
from pathlib import Path

EVERY_S = 5.0


class Wall:
    """Counts on from what earlier starts wrote into `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before = self._read()
        self._start = self._written = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds so far, earlier starts included."""
        return self._before + time.monotonic() - self._start

    def tick(self) -> None:
        """Writes now and then; call it often."""
        if time.monotonic() - self._written >= EVERY_S:
            self.write()

    def write(self) -> None:
        """Writes the seconds down."""
        self._written = time.monotonic()
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text(json.dumps({"seconds": round(self.seconds, 1)}) + "\n", encoding="utf-8")
        scratch.replace(self.path)

    def _read(self) -> float:
        try:
            return float(json.loads(self.path.read_text(encoding="utf-8"))["seconds"])
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError, ValueError):
            return 0.0
