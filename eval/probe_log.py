"""What was scored of an evaluation's memories: `probe.jsonl` beside its samples, one line per sample."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval.errors import EvalError
from eval.sample_log import differences, write_json

PROBES, PROBE_SETTINGS, PROBE_SUMMARY = "probe.jsonl", "probe_settings.json", "probe_summary.json"

ProbeLine = dict[str, Any]


class ProbeLog:
    """Appends lines to `probe.jsonl`; the file belongs to one set of settings (scoring model and rules).

    Raises:
        EvalError: if it was begun with other settings, naming them.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder, self.settings = folder, json.loads(json.dumps(settings))
        self._guard()
        path = folder / PROBES
        with path.open("a+b") as file:
            file.seek(0)
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)  # a line that a kill cut short
        self.lines = read_probes(folder)

    def append(self, line: ProbeLine) -> None:
        """Writes a line at once: what is in the file survives a kill."""
        with (self.folder / PROBES).open("ab") as file:
            file.write((json.dumps(line, allow_nan=False) + "\n").encode())
        self.lines[line["id"]] = line

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        write_json(self.folder / PROBE_SUMMARY, summary)

    def _guard(self) -> None:
        path = self.folder / PROBE_SETTINGS
        if not path.exists():
            write_json(path, self.settings)
            return
        try:
            odd = differences(json.loads(path.read_text()), self.settings)
        except ValueError as error:
            raise EvalError(f"{path} is not JSON ({error}): remove it and {PROBES} to score again") from error
        if odd:
            raise EvalError(
                f"the memories of {self.folder} were scored with other settings: {'; '.join(odd)}. Give these again to "
                f"continue, or remove {PROBES} and {PROBE_SETTINGS} there to score again"
            )


def read_probes(folder: Path) -> dict[str, ProbeLine]:
    """Lines by the sample's id; empty if nothing was scored. The field `probe` holds one entry per turn.

    Raises:
        EvalError: for a line that is none of ours.
    """
    path = folder / PROBES
    content = path.read_bytes() if path.is_file() else b""
    lines: dict[str, ProbeLine] = {}
    for number, raw in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        try:
            line = json.loads(raw)
            lines[str(line["id"])] = line
        except (ValueError, KeyError, TypeError) as error:
            raise EvalError(
                f"{path}, line {number}: not a scored sample ({error}); remove the line"
            ) from error
    return lines
