"""The central record: what an agent was shown, what it wrote, and the training rows that follow from it.

Everything holds token ids. Rows, contexts, rewards and metrics are derived from the turns, never re-parsed from text.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

from mempo.task import Limits, Reference, Task

__all__ = [
    "Action",
    "ContextMode",
    "Limits",
    "MemoryStatus",
    "Reference",
    "Row",
    "StopReason",
    "Task",
    "Trajectory",
    "Turn",
]


class StopReason(StrEnum):
    """Why a trajectory ended."""

    ANSWERED = "answered"  # a turn gave an answer
    MAX_TURNS = "max_turns"  # the last allowed turn searched again
    CONTEXT_FULL = "context_full"  # the next prompt and a turn no longer fit the model's window
    TRUNCATED = "truncated"  # a turn used up its tokens without ending
    NO_ACTION = "no_action"  # a turn ended by itself with neither a search nor an answer


class MemoryStatus(StrEnum):
    """What became of the memory of a turn."""

    CLOSED = "closed"  # opened and closed; may be empty
    MISSING = "missing"  # no <mem> in the turn
    UNCLOSED = "unclosed"  # <mem> without </mem>: earns no memory credit


@dataclass(frozen=True)
class ContextMode:
    """How much of the past a turn is shown: all of it (`history`) or the last `window` turns (`window:k`)."""

    window: int | None = None

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"context mode: window is {self.window}, it must be at least 1")

    @classmethod
    def parse(cls, text: str) -> ContextMode:
        """Reads `history` or `window:k`."""
        if text == "history":
            return cls()
        kind, _, size = text.partition(":")
        if kind == "window" and size.strip().isdigit():
            return cls(int(size))
        raise ValueError(f"context mode {text!r} is unknown: write `history` or `window:k`, e.g. `window:1`")

    def __str__(self) -> str:
        return "history" if self.window is None else f"window:{self.window}"


@dataclass
class Action:
    """What a turn decided: one search query, one answer, or nothing that can be carried out."""

    kind: Literal["search", "answer", "none"]
    text: str
    problem: str | None = None


@dataclass
class Turn:
    """One assistant turn.

    Attributes:
        prompt_ids: what the model was shown, generation prompt included, forced prefix not.
        prefix_ids: forced prefix (e.g. `<mem>\\n`), shown after the prompt; loss mask 0, log-prob 0.
        response_ids: what the model generated, its end-of-turn token included where there is one.
        logprobs: one per response token, natural log, as the sampler reported them.
        memory_span: half-open token span over `prefix_ids + response_ids`, from the token that holds the `<` of
            `<mem>` to the one that holds the `>` of `</mem>`; None unless the memory is closed.
        observation_ids: end of the assistant turn (if the model did not write it) and the tool message, without the
            next generation prompt; empty on the last turn.
        observation_status: ok, empty, blank, failed (of the tool) or none.
        finish: `length` if the turn used up its tokens without an end-of-turn token.
    """

    prompt_ids: list[int]
    prefix_ids: list[int]
    response_ids: list[int]
    logprobs: list[float]
    memory_span: tuple[int, int] | None
    memory_status: MemoryStatus
    memory_text: str
    thought: str | None
    action: Action
    format_problem: str | None = None
    observation: str = ""
    observation_ids: list[int] = field(default_factory=list)
    observation_status: str = "none"
    finish: Literal["stop", "length"] = "stop"

    @property
    def written_ids(self) -> list[int]:
        """The assistant turn as tokens: forced prefix and response."""
        return self.prefix_ids + self.response_ids


@dataclass
class Row:
    """One training row: log-probs and mask are as long as the response; spans are (turn, start, end) over it."""

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    logprobs: list[float]
    memory_spans: list[tuple[int, int, int]]


@dataclass
class Trajectory:
    """One rollout of one task.

    Attributes:
        first_prompt_ids: system and question, without the generation prompt.
        generation_prompt_ids: what opens an assistant turn.
    """

    task: Task
    turns: list[Turn]
    stop: StopReason
    first_prompt_ids: list[int]
    generation_prompt_ids: list[int]
    context: ContextMode = field(default_factory=ContextMode)

    def rows(self) -> list[Row]:
        """Training rows: one for an append-only context, one per turn for a windowed one.

        Raises:
            ValueError: if a prompt is not what the turns before it say, or log-probs do not match their tokens.
        """
        for index, turn in enumerate(self.turns):
            self._check(index, turn)
        if self.context.window is None:
            return [self._joined_row()] if self.turns else []
        return [self._turn_row(index) for index in range(len(self.turns))]

    def full_context(self, index: int) -> list[int]:
        """Everything before turn `index` (0-based), ending with that turn's generation prompt, no forced prefix."""
        return context_ids(
            self.first_prompt_ids, self.generation_prompt_ids, self.turns[:index], ContextMode()
        )

    def memory_context(self, index: int) -> list[int] | None:
        """First prompt, generation prompt and the memory of turn `index` alone; None unless it is closed."""
        turn = self.turns[index]
        if turn.memory_span is None:
            return None
        start, end = turn.memory_span
        return self.first_prompt_ids + self.generation_prompt_ids + turn.written_ids[start:end]

    def final_answer(self) -> str | None:
        """The text of the answer, or None if the trajectory gave none."""
        if self.turns and self.turns[-1].action.kind == "answer":
            return self.turns[-1].action.text
        return None

    def to_record(self) -> dict[str, Any]:
        """Plain JSON types; `from_record` inverts it."""
        record = asdict(self)
        record["stop"] = self.stop.value
        record["context"] = str(self.context)
        for turn in record["turns"]:
            turn["memory_status"] = turn["memory_status"].value
            turn["memory_span"] = list(turn["memory_span"]) if turn["memory_span"] else None
        return record

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Trajectory:
        """Inverts `to_record`."""
        turns = []
        for fields in record["turns"]:
            span = fields["memory_span"]
            turns.append(
                Turn(
                    **{
                        **fields,
                        "memory_status": MemoryStatus(fields["memory_status"]),
                        "memory_span": (span[0], span[1]) if span is not None else None,
                        "action": Action(**fields["action"]),
                    }
                )
            )
        return cls(
            task=Task(**record["task"]),
            turns=turns,
            stop=StopReason(record["stop"]),
            first_prompt_ids=list(record["first_prompt_ids"]),
            generation_prompt_ids=list(record["generation_prompt_ids"]),
            context=ContextMode.parse(record["context"]),
        )

    def _check(self, index: int, turn: Turn) -> None:
        where = f"trajectory {self.task.id!r}, turn {index + 1}"
        if len(turn.logprobs) != len(turn.response_ids):
            raise ValueError(
                f"{where}: {len(turn.logprobs)} log-probs for {len(turn.response_ids)} response tokens"
            )
        if not turn.response_ids:
            raise ValueError(f"{where}: the response is empty")
        shown = context_ids(
            self.first_prompt_ids, self.generation_prompt_ids, self.turns[:index], self.context
        )
        if turn.prompt_ids != shown:
            raise ValueError(f"{where}: the prompt is not the {self.context} context of the turns before it")

    def _turn_row(self, index: int) -> Row:
        turn = self.turns[index]
        forced = len(turn.prefix_ids)
        return Row(
            prompt_ids=list(turn.prompt_ids),
            response_ids=turn.written_ids,
            response_mask=[0] * forced + [1] * len(turn.response_ids),
            logprobs=[0.0] * forced + list(turn.logprobs),
            memory_spans=[(index, *turn.memory_span)] if turn.memory_span else [],
        )

    def _joined_row(self) -> Row:
        row = Row(self.first_prompt_ids + self.generation_prompt_ids, [], [], [], [])
        for index in range(len(self.turns)):
            if index:
                between = self.turns[index - 1].observation_ids + self.generation_prompt_ids
                row.response_ids += between
                row.response_mask += [0] * len(between)
                row.logprobs += [0.0] * len(between)
            offset = len(row.response_ids)
            part = self._turn_row(index)
            row.memory_spans += [
                (turn, start + offset, end + offset) for turn, start, end in part.memory_spans
            ]
            row.response_ids += part.response_ids
            row.response_mask += part.response_mask
            row.logprobs += part.logprobs
        return row


def context_ids(
    first_prompt_ids: list[int], generation_prompt_ids: list[int], past: list[Turn], context: ContextMode
) -> list[int]:
    """The prompt of the turn that follows `past`: first prompt, the turns that `context` keeps, generation prompt."""
    kept = past if context.window is None else past[-context.window :]
    ids = list(first_prompt_ids)
    for turn in kept:
        ids += generation_prompt_ids + turn.written_ids + turn.observation_ids
    return ids + generation_prompt_ids
