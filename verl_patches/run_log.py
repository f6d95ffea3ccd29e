"""What a run leaves in its folder step by step: metrics.jsonl and sample trajectories."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mempo.memory_scores import TurnScore
from mempo.tokens import ChatTokens
from mempo.trajectory import restore_prompts
from verl_patches.disk import writing
from verl_patches.records import SessionRecord
from verl_patches.token_advantages import token_advantages

METRICS = "metrics.jsonl"  # of the run; a checkpoint keeps the line of its own step under the same name


class RunLog:
    """Writes into a run folder.

    Args:
        folder: the run's folder; made if missing.
        resumed_step: the step that the run goes on from; what an earlier process logged after it is taken back, since
            those steps are run again.
        checkpoint: of that step. If a kill came between it and the step's line, it has the line (see `keep`).
    """

    def __init__(self, folder: str | Path, resumed_step: int = 0, checkpoint: Path | None = None) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._metrics = self.folder / METRICS
        lines = self._lines_until(resumed_step)
        if checkpoint is not None and resumed_step not in lines:
            lines |= _kept_in(checkpoint, resumed_step)
        if lines or self._metrics.exists():
            _write_whole(self._metrics, "".join(lines[step] for step in sorted(lines)))

    def metrics(self, step: int, values: Mapping[str, Any]) -> None:
        """Appends one JSON object: `step` and every number of `values`; what is not finite is written as null."""
        with writing(self._metrics), self._metrics.open("a") as file:
            file.write(_line(step, values))

    def keep(self, checkpoint: Path, step: int, values: Mapping[str, Any]) -> None:
        """Writes the step's line into its checkpoint."""
        _write_whole(checkpoint / METRICS, _line(step, values))

    def trajectories(
        self,
        step: int,
        records: Sequence[SessionRecord],
        scores: Mapping[str, Sequence[TurnScore]],
        advantages: Mapping[str, Sequence[torch.Tensor]],
        tokens: ChatTokens,
    ) -> None:
        """Writes trajectories/step_N.jsonl: one record per line, with its scores, its text and its tokens' advantages.

        Args:
            scores: session → one score per turn.
            advantages: session → final advantages of its training rows.
        """
        folder = self.folder / "trajectories"
        folder.mkdir(exist_ok=True)
        scratch = folder / f"step_{step}.tmp"
        with writing(folder / f"step_{step}.jsonl"), scratch.open("w") as file:
            for record in records:
                session = record.session
                line = sample(record, scores.get(session, ()), advantages.get(session), tokens)
                file.write(json.dumps({"step": step, **line}) + "\n")  # ASCII: any question can be written
        scratch.replace(folder / f"step_{step}.jsonl")

    def _lines_until(self, step: int) -> dict[int, str]:
        """Of each step up to `step` its last line; one that a kill cut short is left out."""
        try:
            lines = self._metrics.read_text().splitlines()
        except FileNotFoundError:
            return {}
        numbered = [(_step_of(line), line + "\n") for line in lines]
        return {number: line for number, line in numbered if number is not None and number <= step}


def _kept_in(checkpoint: Path, step: int) -> dict[int, str]:
    """The line that a checkpoint keeps; an earlier version of ours kept none."""
    try:
        line = (checkpoint / METRICS).read_text()
    except FileNotFoundError:
        return {}
    return {step: line} if _step_of(line) == step else {}


def _step_of(line: str) -> int | None:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return None


def _line(step: int, values: Mapping[str, Any]) -> str:
    numbers = {name: number(value) for name, value in values.items() if _is_number(value)}
    return json.dumps({"step": step, **numbers}) + "\n"


def _write_whole(path: Path, text: str) -> None:
    scratch = path.with_suffix(".tmp")
    with writing(path):
        scratch.write_text(text)
        os.replace(scratch, path)


def sample(
    record: SessionRecord,
    scores: Sequence[TurnScore],
    advantages: Sequence[torch.Tensor] | None,
    tokens: ChatTokens,
) -> dict[str, Any]:
    """A trajectory with everything that was said about it, as plain types; without `tokens` if nothing was trained on."""
    trajectory = record.trajectory
    said = {} if advantages is None else {"tokens": token_advantages(trajectory, advantages, tokens)}
    return {
        **said,
        "session": record.session,
        "question": trajectory.task.question,
        "answers": record.reference.answers,
        "answer": trajectory.final_answer(),
        "stop": trajectory.stop.value,
        "reward": record.reward,
        "scores": record.scores,
        "row_digests": record.row_digests,
        "memory": [{**asdict(score), "reward": score.reward} for score in scores],
        "text": tokens.decode(trajectory.transcript_ids()),
        "trajectory": restore_prompts(trajectory).to_record(),
    }


def spread(records: Sequence[SessionRecord], count: int) -> list[SessionRecord]:
    """At most `count` records, evenly over the batch."""
    if count >= len(records):
        return list(records)
    return [records[index * len(records) // count] for index in range(count)]


def number(value: Any) -> float | int | None:
    """A plain finite number, or None."""
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, bool):
        return int(plain)
    return plain if isinstance(plain, int) or math.isfinite(plain) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.number) or (
        hasattr(value, "item") and getattr(value, "size", 2) == 1
    )
