"""The central record: what an agent was shown, what it wrote, and the training rows that follow from it.

Everything holds token ids. Rows, contexts, rewards and metrics are derived from the turns, never re-parsed from text.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mempo.row_contract import ContractViolation, check_contract
from mempo.task import Limits, Reference, Task
from mempo.turn import Action, ContextMode, MemoryFrame, MemoryStatus, StopReason, Turn, context_ids

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
    "context_ids",
    "restore_prompts",
]


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
            ContractViolation: see `mempo.row_contract.check_contract`.
        """
        check_contract(self)
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
