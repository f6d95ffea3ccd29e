"""Stages of a run: each leaves a note of what it made from what, and is skipped while that note holds."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.run.files import write_json

Say = Callable[[str], None]


def content_key(values: Mapping[str, Any]) -> str:
    """A short name for plain values: equal values, equal name."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Note:
    """What a finished stage wrote down: its inputs, its result (plain JSON) and the seconds it took."""

    inputs: dict[str, Any]
    result: dict[str, Any]
    seconds: float


class Stages:
    """Runs stages in a run folder.

    Args:
        folder: where the notes lie.
        say: gets one line when a stage starts, ends or is skipped.
    """

    def __init__(self, folder: Path, say: Say) -> None:
        self.folder, self.say = folder, say

    def note(self, name: str) -> Note | None:
        """The note of a finished stage, or None."""
        try:
            return Note(**json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8")))
        except (FileNotFoundError, json.JSONDecodeError, TypeError):
            return None

    def run(
        self,
        name: str,
        inputs: Mapping[str, Any],
        work: Callable[[], Mapping[str, Any]],
        *,
        intact: Callable[[dict[str, Any]], bool] = lambda result: True,
    ) -> dict[str, Any]:
        """Does `work` unless it was done with equal inputs and its result is still `intact`.

        Returns:
            What `work` returned, now or then.
        """
        plain = json.loads(json.dumps(inputs, default=str))
        done = self.note(name)
        if done is not None and done.inputs == plain and intact(done.result):
            self.say(f"{name}: done before ({done.seconds:.0f} s then)")
            return done.result
        self.say(f"{name} ...")
        begin = time.monotonic()
        from verl_patches.disk import writing

        with writing(f"the files of the stage {name}"):
            result = json.loads(json.dumps(work(), default=str))
        seconds = time.monotonic() - begin
        self._write(name, Note(plain, result, round(seconds, 3)))
        self.say(f"{name}: {seconds:.0f} s")
        return result

    def seconds(self) -> dict[str, float]:
        """Seconds of every finished stage."""
        notes = {path.stem: self.note(path.stem) for path in sorted(self.folder.glob("*.json"))}
        return {name: note.seconds for name, note in notes.items() if note is not None}

    def _write(self, name: str, note: Note) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / f"{name}.json", vars(note))
