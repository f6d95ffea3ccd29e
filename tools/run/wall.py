"""Seconds of a run over all its starts; survives a kill to within a few seconds."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

from tools.run.files import write_json

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
        """Writes now and then; call it often. A disk that refuses is no reason to end what is being timed."""
        if time.monotonic() - self._written >= EVERY_S:
            with suppress(OSError):
                self.write()

    def write(self) -> None:
        """Writes the seconds down."""
        self._written = time.monotonic()
        write_json(self.path, {"seconds": round(self.seconds, 1)})

    def _read(self) -> float:
        try:
            return float(json.loads(self.path.read_text(encoding="utf-8"))["seconds"])
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError, ValueError):
            return 0.0
