"""What an agent loop tells the trainer beside its rows: one record per session, in a TransferQueue partition of its own.

The trainer reads a session's record once and clears it. Records are JSON text: plain types, exact floats.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import transfer_queue as tq
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from mempo.probe import ProbeFormat
from mempo.reward import Outcome
from mempo.task import Reference
from mempo.trajectory import Trajectory
from verl_patches.failures import Failure

TRAIN_PARTITION = "mempo_train"
VALIDATION_PARTITION = "mempo_val"
_FIELD = "record"


def session_key(uid: str, session: int) -> str:
    """The session's name, also the front of its rows' keys: rows are `{uid}_{session}_{row}`."""
    return f"{uid}_{session}"


@dataclass
class SessionRecord:
    """One finished session: its trajectory, what it earned, how many rows it handed over, and each one's digest."""

    session: str
    trajectory: Trajectory
    reference: Reference
    probe_format: ProbeFormat
    reward: float
    scores: dict[str, float]  # answer and format scores, for metrics and samples
    rows: int
    seconds: dict[str, float]  # generate, tools, whole session
    row_digests: list[str] = field(default_factory=list)  # `mempo.row_digest`
    draw: int = 0  # which of the run's questions it was, counted as they were drawn

    @classmethod
    def of(
        cls,
        session: str,
        trajectory: Trajectory,
        reference: Reference,
        probe_format: ProbeFormat,
        outcome: Outcome,
        rows: int,
        seconds: dict[str, float],
    ) -> SessionRecord:
        """A record with the outcome flattened."""
        scores = outcome_scores(outcome)
        return cls(
            session,
            trajectory,
            reference,
            probe_format,
            outcome.reward,
            scores,
            rows,
            seconds,
        )

    @property
    def group(self) -> str:
        """The question's uid: sessions of one question are compared with each other."""
        return self.session.rsplit("_", 1)[0]

    @property
    def order(self) -> tuple[str, int, int]:
        """Where the session stands in a batch: by question, draw and session, not by verl's random uid."""
        return self.trajectory.task.id, self.draw, int(self.session.rsplit("_", 1)[1])

    def to_json(self) -> str:
        """The record as text, without the prompts that follow from the turns before them."""
        fields: dict[str, Any] = {**vars(self), "trajectory": self.trajectory.to_record(prompts=False)}
        fields["reference"], fields["probe_format"] = asdict(self.reference), asdict(self.probe_format)
        return json.dumps({"status": "finished", **fields})


def outcome_scores(outcome: Outcome) -> dict[str, float]:
    """The outcome as flat numbers; the same keys for every trajectory, `acc` among them (verl's validation reads it)."""
    answer = outcome.answer
    return {
        "acc": float(outcome.success),
        "em": answer.em_mean,
        "f1": answer.f1_mean,
        "sub_em": answer.sub_em_mean,
        "format_ok": float(outcome.format_ok),
    }


def parse_record(text: str) -> SessionRecord | Failure:
    """Inverts `to_json`, but for the prompts (`mempo.trajectory.restore_prompts`), and `failure_json`."""
    fields = json.loads(text)
    if fields.pop("status") == "failed":
        return Failure(**fields)
    fields["trajectory"] = Trajectory.from_record(fields["trajectory"])
    fields["reference"] = Reference(**fields["reference"])
    fields["probe_format"] = ProbeFormat(**fields["probe_format"])
    return SessionRecord(**fields)


def failure_json(failure: Failure) -> str:
    return json.dumps({"status": "failed", **asdict(failure)})


async def put_record(session: str, text: str, partition: str) -> None:
    """Publishes a session's record; the session's own status must be written after it."""
    fields = list_of_dict_to_tensordict([{_FIELD: text}])
    await tq.async_kv_batch_put(
        keys=[session], partition_id=partition, fields=fields, tags=[{"session": session}]
    )


def take_records(partition: str, uids: Iterable[str] | None = None) -> dict[str, SessionRecord | Failure]:
    """Reads the records of some questions (None: of all) and clears them from the queue.

    Returns:
        session key → record, in no order that means anything.
    """
    wanted = None if uids is None else set(uids)
    listed = (tq.kv_list(partition) or {}).get(partition, {})
    keys = [key for key in listed if wanted is None or key.rsplit("_", 1)[0] in wanted]
    if not keys:
        return {}
    texts = list(tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=[_FIELD])[_FIELD])
    tq.kv_clear(keys=keys, partition_id=partition)
    return {
        key: parse_record(str(getattr(text, "data", text))) for key, text in zip(keys, texts, strict=True)
    }
