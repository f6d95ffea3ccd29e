"""One trajectory as a reader wants to see it, from a line of an evaluation or of a training run's samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from eval.sample import Sample, is_right


@dataclass(frozen=True)
class MemoryScore:
    """What was said about the memory of a turn; probabilities are None unless the status is `scored`."""

    status: str
    p_memory: float | None = None
    p_reference: float | None = None

    @property
    def reward(self) -> float | None:
        """P_mem minus the reference, or None without a score."""
        if self.p_memory is None or self.p_reference is None:
            return None
        return self.p_memory - self.p_reference


@dataclass(frozen=True)
class RecordTurn:
    """One turn as text.

    Attributes:
        memory_tokens: its length, tags included; None unless the memory is closed.
        pieces: what the turn wrote, cut where the advantage changes: (text, advantage); empty where the file has none.
    """

    memory: str
    memory_status: str
    memory_tokens: int | None
    thought: str | None
    action: str
    action_text: str
    problem: str | None
    format_problem: str | None
    observation: str
    observation_status: str
    finish: str
    score: MemoryScore | None
    pieces: list[tuple[str, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Record:
    """One trajectory with its scores.

    Attributes:
        id: unique within what was read.
        step: the training step; None for an evaluation.
        reference: what P_mem is compared with: `history` or `previous memory`.
        failure: cause and message of a rollout that did not end; it has no turns.
    """

    id: str
    step: int | None
    question: str
    answers: list[list[str]]
    prediction: str | None
    right: bool
    em: float
    f1: float
    reward: float
    format_ok: bool
    format_reason: str | None
    stop: str | None
    failure: str | None
    reference: str
    turns: list[RecordTurn]


def from_sample(sample: Sample, probe: Sequence[Mapping[str, Any]] = ()) -> Record:
    """A sample of an evaluation (`eval.sample`).

    Args:
        probe: what `eval.memory_probe` said about its memories, one entry per turn.

    Raises:
        KeyError, TypeError, ValueError: if it is none.
    """
    previous = any("p_previous_memory" in turn for turn in probe)
    against = "p_previous_memory" if previous else "p_history"
    scores = {int(turn["turn"]): _score(turn["status"], turn["p_memory"], turn[against]) for turn in probe}
    failure = sample["failure"]
    return Record(
        id=str(sample["id"]),
        step=None,
        question=sample["question"],
        answers=sample["answers"],
        prediction=sample["prediction"],
        right=is_right(sample),
        em=sample["em"],
        f1=sample["f1"],
        reward=sample["reward"],
        format_ok=sample["format_ok"],
        format_reason=sample["format_reason"],
        stop=sample["stop"],
        failure=f"{failure['cause']}: {failure['message']}" if failure else None,
        reference="previous memory" if previous else "history",
        turns=_turns(sample["trajectory"], scores, None),
    )


def from_training(line: Mapping[str, Any]) -> Record:
    """A line of a training run's `trajectories/step_N.jsonl` (`verl_patches.run_log`).

    Token-level advantages are shown where the line has `tokens`: one `{"text": […], "advantage": […]}` per turn,
    both as long as the tokens that the turn wrote (forced prefix and response).

    Raises:
        KeyError, TypeError, ValueError: if it is none.
    """
    scores = {
        int(score["turn"]): _score(score["status"], score["p_memory"], score["p_reference"])
        for score in line["memory"]
    }
    # Only against the history is the first memory not scored: it has nothing before it.
    history = 0 not in scores or scores[0].status == "first"
    return Record(
        id=f"step-{line['step']}-{line['session']}",
        step=int(line["step"]),
        question=line["question"],
        answers=line["answers"],
        prediction=line["answer"],
        right=line["scores"]["em"] == 1.0,
        em=line["scores"]["em"],
        f1=line["scores"]["f1"],
        reward=line["reward"],
        format_ok=bool(line["scores"]["format_ok"]),
        format_reason=None,
        stop=line["stop"],
        failure=None,
        reference="history" if history else "previous memory",
        turns=_turns(line["trajectory"], scores, line.get("tokens")),
    )


def _score(status: str, p_memory: float | None, p_reference: float | None) -> MemoryScore:
    if status != "scored" or p_memory is None or p_reference is None:
        return MemoryScore(status)
    return MemoryScore(status, float(p_memory), float(p_reference))


def _turns(
    trajectory: Mapping[str, Any] | None, scores: Mapping[int, MemoryScore], tokens: list[Any] | None
) -> list[RecordTurn]:
    turns = trajectory["turns"] if trajectory else []
    if tokens is not None and len(tokens) != len(turns):
        raise ValueError(f"`tokens` has {len(tokens)} turns, the trajectory {len(turns)}")
    return [
        _turn(turn, scores.get(index), _pieces(turn, tokens[index]) if tokens is not None else [])
        for index, turn in enumerate(turns)
    ]


def _turn(turn: Mapping[str, Any], score: MemoryScore | None, pieces: list[tuple[str, float]]) -> RecordTurn:
    span = turn["memory_span"]
    return RecordTurn(
        memory=turn["memory_text"],
        memory_status=turn["memory_status"],
        memory_tokens=span[1] - span[0] if span else None,
        thought=turn["thought"],
        action=turn["action"]["kind"],
        action_text=turn["action"]["text"],
        problem=turn["action"]["problem"],
        format_problem=turn["format_problem"],
        observation=turn["observation"],
        observation_status=turn["observation_status"],
        finish=turn["finish"],
        score=score,
        pieces=pieces,
    )


def _pieces(turn: Mapping[str, Any], tokens: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Neighbours with one advantage as one piece: a turn has a handful of them, and thousands of tokens."""
    texts, advantages = tokens["text"], tokens["advantage"]
    written = len(turn["prefix_ids"]) + len(turn["response_ids"])
    if not len(texts) == len(advantages) == written:
        raise ValueError(
            f"`tokens` has {len(texts)} texts and {len(advantages)} advantages for {written} written tokens"
        )
    pairs = zip(texts, map(float, advantages), strict=True)
    return [
        ("".join(text for text, _ in run), value) for value, run in groupby(pairs, key=lambda pair: pair[1])
    ]
