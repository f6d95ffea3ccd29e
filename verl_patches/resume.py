"""Going on after a kill: verl writes the pointer to its latest checkpoint in place, so a kill can leave it empty."""

from __future__ import annotations

import os
from pathlib import Path

TRACKER = "latest_checkpointed_iteration.txt"
_LAST_FILE = "data.pt"  # what verl writes last into a checkpoint, just before the pointer


def repair_tracker(folder: str | Path) -> int | None:
    """Points verl's tracker at the newest complete checkpoint if it holds no step number.

    Returns:
        the step that the tracker names now, None if there is no checkpoint.
    """
    tracker = Path(folder) / TRACKER
    named = _read(tracker)
    if named is not None:
        return named
    steps = [
        int(path.name.removeprefix("global_step_"))
        for path in Path(folder).glob("global_step_*")
        if (path / _LAST_FILE).exists() and path.name.removeprefix("global_step_").isdigit()
    ]
    if not steps or not tracker.exists():
        return None  # nothing was completed: verl starts from scratch
    scratch = tracker.with_suffix(".tmp")
    scratch.write_text(str(max(steps)))
    os.replace(scratch, tracker)
    return max(steps)


def _read(tracker: Path) -> int | None:
    try:
        return int(tracker.read_text())
    except (OSError, ValueError):
        return None
