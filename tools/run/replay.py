"""A step's rows once more, from the trajectories that it stored, and whether they are those that were trained on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mempo.row_digest import row_digest
from mempo.trajectory import ContractViolation, Trajectory
from tools.run.errors import RunError
from tools.run.metrics import read_steps


@dataclass(frozen=True)
class Replayed:
    """One trajectory: how many rows it gave online and now, and what differs (empty: nothing).

    Attributes:
        stored: None where the run kept no digests of its rows (one of an earlier version): nothing can be compared.
    """

    session: str
    stored: int | None
    rebuilt: int
    problems: list[str]


def replay(run: Path, step: int) -> Iterator[Replayed]:
    """Rebuilds the rows of every trajectory in `run/trajectories/step_N.jsonl` with the converter of training.

    Raises:
        RunError: the step stored nothing, or a line is not of this version.
    """
    path = run / "trajectories" / f"step_{step}.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise RunError(
            f"{path} is not there: the step was not run, or run.sample_trajectories is 0"
        ) from None
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            session, trajectory = str(fields["session"]), Trajectory.from_record(fields["trajectory"])
            stored = [str(digest) for digest in fields["row_digests"]] if "row_digests" in fields else None
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path}: line {number} is not of this version: {error!r}") from error
        yield _replayed(session, stored, trajectory)


@dataclass(frozen=True)
class Trained:
    """What a step trained on, stored or not: only `run.sample_trajectories` of a step's trajectories are kept."""

    trajectories: int
    rows: int


def trained(run: Path, step: int) -> Trained | None:
    """The step's counts in `run/metrics.jsonl`; None if it does not tell them (a killed step, or an earlier version)."""
    for metrics in read_steps(run / "metrics.jsonl"):
        if metrics["step"] == step and "trajectory/count" in metrics and "rows/transferred" in metrics:
            return Trained(int(metrics["trajectory/count"]), int(metrics["rows/transferred"]))
    return None


def _replayed(session: str, stored: list[str] | None, trajectory: Trajectory) -> Replayed:
    count = None if stored is None else len(stored)
    try:
        rows = trajectory.rows()
    except ContractViolation as error:
        return Replayed(session, count, 0, [str(error)])
    if stored is None:
        return Replayed(session, None, len(rows), [])
    now = [
        row_digest(row.prompt_ids, row.response_ids, row.response_mask, row.logprobs, row.memory_spans)
        for row in rows
    ]
    problems = [
        f"row {index} differs" for index, (a, b) in enumerate(zip(stored, now, strict=False)) if a != b
    ]
    if len(stored) != len(now):
        problems.append(f"{len(stored)} rows were trained on, {len(now)} are rebuilt")
    return Replayed(session, count, len(now), problems)
