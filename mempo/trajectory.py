"""The central record: what an agent was shown, what it wrote, and the training rows that follow from it.

Everything holds token ids. Rows, contexts, rewards and metrics are derived from the turns, never re-parsed from text.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from mempo.task import Limits, Reference, Task

__all__ = [
    "Action",
    "ContextMode",
    "ContractViolation",
    "Limits",
    "MemoryFrame",
    "MemoryStatus",
    "Reference",
    "Row",
    "StopReason",
    "Task",
    "Trajectory",
    "Turn",
    "restore_prompts",
]


class ContractViolation(ValueError):
    """A trajectory that cannot have come about by the rules: a fault of ours, never the model's. It fails the step."""


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
    NONE = "none"  # the turn is not asked for a memory


@dataclass(frozen=True)
class ContextMode:
    """How much of the past a turn is shown.

    All of it (`history`), the last `window` turns (`window:k`), or nothing but the last memory, in a prompt that the agent
    writes anew for every turn (`rewritten`).
    """

    window: int | None = None
    rewritten: bool = False

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"context mode: window is {self.window}, it must be at least 1")
        if self.rewritten and self.window is not None:
            raise ValueError("context mode: a rewritten context has no window")

    @property
    def append_only(self) -> bool:
        """Whether every prompt begins with the whole conversation before it: then a trajectory is one training row."""
        return self.window is None and not self.rewritten

    @classmethod
    def parse(cls, text: str) -> ContextMode:
        """Reads `history`, `window:k` or `rewritten`."""
        if text == "history":
            return cls()
        if text == "rewritten":
            return cls(rewritten=True)
        kind, _, size = text.partition(":")
        if kind == "window" and size.strip().isdigit():
            return cls(int(size))
        raise ValueError(
            f"context mode {text!r} is unknown: write `history`, `window:k` (e.g. `window:1`) or `rewritten`"
        )

    def __str__(self) -> str:
        if self.rewritten:
            return "rewritten"
        return "history" if self.window is None else f"window:{self.window}"


@dataclass
class Action:
    """What a turn decided: one search query, one answer, to read on, or nothing that can be carried out."""

    kind: Literal["search", "answer", "read", "none"]
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
            `<mem>` to the one that holds the `>` of `</mem>`; in a rewritten context the memory has no tags, and may be
            empty (start equals end). None unless the memory is closed.
        observation_ids: end of the assistant turn (if the model did not write it) and the tool message, without the
            next generation prompt; empty on the last turn.
        observation_status: ok, empty, blank, failed (of the tool) or none.
        finish: `length` if the turn used up its tokens without an end-of-turn token.
        shown_memory: half-open span of `prompt_ids` that holds the memory of the turn before it (or what stands for
            none); only in a rewritten context.
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
    shown_memory: tuple[int, int] | None = None

    @property
    def written_ids(self) -> list[int]:
        """The assistant turn as tokens: forced prefix and response."""
        return self.prefix_ids + self.response_ids

    @property
    def memory_ids(self) -> list[int] | None:
        """The tokens of a closed memory, tags included where it has some; None without one."""
        return None if self.memory_span is None else self.written_ids[slice(*self.memory_span)]


@dataclass(frozen=True)
class MemoryFrame:
    """The prompt that asks for the answer from a memory alone: `before_ids`, the memory's ids, `after_ids`.

    Attributes:
        after_ids: ends with the generation prompt, unless the memory itself is written after it.
        empty_ids: what stands in the memory's place before the first one was written.
    """

    before_ids: list[int]
    after_ids: list[int]
    empty_ids: list[int]

    def around(self, memory_ids: list[int]) -> list[int]:
        return self.before_ids + memory_ids + self.after_ids


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
        memory_frame: the prompt around a memory in a rewritten context. None elsewhere: there a memory is written after
            the first prompt.
    """

    task: Task
    turns: list[Turn]
    stop: StopReason
    first_prompt_ids: list[int]
    generation_prompt_ids: list[int]
    context: ContextMode = field(default_factory=ContextMode)
    memory_frame: MemoryFrame | None = None

    def rows(self) -> list[Row]:
        """Training rows: one for an append-only context, one per turn for a windowed or rewritten one.

        Raises:
            ContractViolation: if a prompt is not what the turns before it say, log-probs do not match their tokens, or, in
                a rewritten context, the turns are not memories and then one answer.
        """
        for index, turn in enumerate(self.turns):
            self._check(index, turn)
        if self.context.append_only:
            return [self._joined_row()] if self.turns else []
        return [self._turn_row(index) for index in range(len(self.turns))]

    def full_context(self, index: int) -> list[int]:
        """Everything before turn `index` (0-based), ending with that turn's generation prompt, no forced prefix.

        Raises:
            ValueError: in a rewritten context, where no prompt holds the turns before it.
        """
        if self.context.rewritten:
            raise ValueError(
                f"trajectory {self.task.id!r}: a rewritten context has no history to compare a memory with; "
                "set memory.reference to previous_memory"
            )
        return context_ids(
            self.first_prompt_ids, self.generation_prompt_ids, self.turns[:index], ContextMode()
        )

    def memory_context(self, index: int) -> list[int] | None:
        """The prompt with the memory of turn `index` alone; None unless it is closed."""
        memory = self.turns[index].memory_ids
        return None if memory is None else self.around_memory(memory)

    def around_memory(self, memory_ids: list[int]) -> list[int]:
        """The prompt in which a memory alone has to answer."""
        if self.memory_frame is not None:
            return self.memory_frame.around(memory_ids)
        return self.first_prompt_ids + self.generation_prompt_ids + memory_ids

    def transcript_ids(self) -> list[int]:
        """All that was shown and written, in order; in a rewritten context the prompts one after another."""
        if self.context.rewritten:
            return [token for turn in self.turns for token in (*turn.prompt_ids, *turn.written_ids)]
        ids = list(self.first_prompt_ids)
        for turn in self.turns:
            ids += self.generation_prompt_ids + turn.written_ids + turn.observation_ids
        return ids

    def final_answer(self) -> str | None:
        """The text of the answer, or None if the trajectory gave none."""
        if self.turns and self.turns[-1].action.kind == "answer":
            return self.turns[-1].action.text
        return None

    def to_record(self, *, prompts: bool = True) -> dict[str, Any]:
        """Plain JSON types; `from_record` inverts it.

        Args:
            prompts: False leaves out the prompts that `restore_prompts` can put back: with history they repeat every turn
                before them. Rewritten ones stay.
        """
        record = asdict(self)
        record["stop"] = self.stop.value
        record["context"] = str(self.context)
        for turn in record["turns"]:
            turn["memory_status"] = turn["memory_status"].value
            for span in ("memory_span", "shown_memory"):
                turn[span] = list(turn[span]) if turn[span] is not None else None
            if not prompts and not self.context.rewritten:
                turn["prompt_ids"] = []
        return record

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Trajectory:
        """Inverts `to_record`; reads the records of earlier versions too, which lack the latest fields."""
        turns = []
        for fields in record["turns"]:
            turns.append(
                Turn(
                    **{
                        **fields,
                        "memory_status": MemoryStatus(fields["memory_status"]),
                        "memory_span": _span(fields["memory_span"]),
                        "shown_memory": _span(fields.get("shown_memory")),
                        "action": Action(**fields["action"]),
                    }
                )
            )
        frame = record.get("memory_frame")
        return cls(
            task=Task(**record["task"]),
            turns=turns,
            stop=StopReason(record["stop"]),
            first_prompt_ids=list(record["first_prompt_ids"]),
            generation_prompt_ids=list(record["generation_prompt_ids"]),
            context=ContextMode.parse(record["context"]),
            memory_frame=MemoryFrame(**frame) if frame is not None else None,
        )

    def _check(self, index: int, turn: Turn) -> None:
        where = f"trajectory {self.task.id!r}, turn {index + 1}"
        if len(turn.logprobs) != len(turn.response_ids):
            raise ContractViolation(
                f"{where}: {len(turn.logprobs)} log-probs for {len(turn.response_ids)} response tokens"
            )
        if not turn.response_ids:
            raise ContractViolation(f"{where}: the response is empty")
        if self.context.rewritten:
            self._check_rewritten(where, index, turn)
            return
        shown = context_ids(
            self.first_prompt_ids, self.generation_prompt_ids, self.turns[:index], self.context
        )
        if turn.prompt_ids != shown:
            raise ContractViolation(
                f"{where}: the prompt is not the {self.context} context of the turns before it"
            )

    def _check_rewritten(self, where: str, index: int, turn: Turn) -> None:
        """Memories and then one answer, which is shown the last memory in its frame and nothing else."""
        if self.memory_frame is None:
            raise ContractViolation(f"{where}: a rewritten context without a memory frame")
        before = self.turns[index - 1].memory_ids if index else self.memory_frame.empty_ids
        if before is None:
            raise ContractViolation(
                f"{where}: the turn before it wrote no memory; memory turns are followed by exactly one final turn"
            )
        if index == len(self.turns) - 1:
            if turn.memory_status is not MemoryStatus.NONE or not index:
                raise ContractViolation(f"{where}: the last turn is not a final turn after a memory turn")
            if turn.prompt_ids != self.memory_frame.around(before):
                raise ContractViolation(
                    f"{where}: the final prompt holds something other than question, last memory and answer format"
                )
        elif turn.memory_span is None:
            raise ContractViolation(
                f"{where}: no memory, but it is not the last turn; exactly one final turn may follow the memory turns"
            )
        elif turn.shown_memory is None or turn.prompt_ids[slice(*turn.shown_memory)] != before:
            raise ContractViolation(f"{where}: the prompt does not show the memory of the turn before it")

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


def restore_prompts(trajectory: Trajectory) -> Trajectory:
    """The trajectory with every turn's prompt, where it follows from the turns before it."""
    if trajectory.context.rewritten:
        return trajectory
    turns: list[Turn] = []
    for turn in trajectory.turns:
        shown = context_ids(
            trajectory.first_prompt_ids, trajectory.generation_prompt_ids, turns, trajectory.context
        )
        turns.append(replace(turn, prompt_ids=shown))
    return replace(trajectory, turns=turns)


def _span(value: Any) -> tuple[int, int] | None:
    return None if value is None else (value[0], value[1])


def context_ids(
    first_prompt_ids: list[int], generation_prompt_ids: list[int], past: list[Turn], context: ContextMode
) -> list[int]:
    """The prompt of the turn that follows `past`: first prompt, the turns that `context` keeps, generation prompt."""
    kept = past if context.window is None else past[-context.window :]
    ids = list(first_prompt_ids)
    for turn in kept:
        ids += generation_prompt_ids + turn.written_ids + turn.observation_ids
    return ids + generation_prompt_ids
