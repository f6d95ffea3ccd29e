"""A step's batch as trajectories: which row belongs to which session, and whether all of them arrived."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verl_patches.failures import Failure, RunFailed
from verl_patches.records import SessionRecord, session_key


@dataclass
class StepBatch:
    """Surviving sessions in a fixed order (by question, draw and session), each with the keys of its rows in order."""

    records: list[SessionRecord] = field(default_factory=list)
    row_keys: list[list[str]] = field(default_factory=list)
    sessions: int = 0  # asked for


def match_rows(
    uids: Sequence[str], rollouts: int, records: Mapping[str, SessionRecord | Failure], batch: Any
) -> tuple[StepBatch, list[Failure]]:
    """Matches the rows that the replay buffer handed over with the records of their sessions.

    Args:
        uids: the questions of the batch; rollouts: sessions of each.
        batch: verl's `KVBatchMeta` (`keys`, `tags`), without padding.

    Raises:
        RunFailed: if a trajectory's rows are not exactly those that its session produced, naming it.
    """
    keys_of: dict[str, list[str]] = defaultdict(list)
    for key in batch.keys:
        keys_of[key.rsplit("_", 1)[0]].append(key)
    failures, finished = [], []
    for uid in uids:
        for index in range(rollouts):
            session = session_key(uid, index)
            record = records.get(session)
            if isinstance(record, SessionRecord):
                finished.append(record)
            elif isinstance(record, Failure):
                failures.append(record)
            else:
                failures.append(
                    Failure(session, "no_record", f"session {session} left neither rows nor a cause")
                )
    for record in finished:
        _check_rows(record, keys_of.pop(record.session, []))
    if keys_of:
        session, keys = next(iter(keys_of.items()))
        raise RunFailed(f"trajectory {session}: {len(keys)} rows arrived, but its session reported none")
    finished.sort(key=lambda record: record.order)
    rows = [[f"{record.session}_{row}" for row in range(record.rows)] for record in finished]
    return StepBatch(finished, rows, sessions=len(uids) * rollouts), failures


def check_equal_turns(records: Sequence[SessionRecord]) -> None:
    """Fails unless all surviving trajectories of a question have the same number of turns (`memory.equal_turns`).

    Raises:
        RunFailed: naming two trajectories that differ.
    """
    first: dict[str, SessionRecord] = {}
    for record in records:
        other = first.setdefault(record.group, record)
        if len(other.trajectory.turns) != len(record.trajectory.turns):
            raise RunFailed(
                f"question {record.trajectory.task.id!r}: trajectory {other.session} has {len(other.trajectory.turns)} turns, "
                f"{record.session} has {len(record.trajectory.turns)}, and memory.equal_turns is set: set it to false for "
                "an agent that decides itself when to end"
            )


def _check_rows(record: SessionRecord, keys: Sequence[str]) -> None:
    if {int(key.rsplit("_", 1)[1]) for key in keys} != set(range(record.rows)):
        raise RunFailed(
            f"trajectory {record.session} (question {record.trajectory.task.id!r}): {record.rows} rows were produced, "
            f"{len(keys)} arrived ({sorted(keys)})"
        )
