"""One assistant turn, as token ids, and what decides which turns a prompt shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


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


def context_ids(
    first_prompt_ids: list[int], generation_prompt_ids: list[int], past: list[Turn], context: ContextMode
) -> list[int]:
    """The prompt of the turn that follows `past`: first prompt, the turns that `context` keeps, generation prompt."""
    kept = past if context.window is None else past[-context.window :]
    ids = list(first_prompt_ids)
    for turn in kept:
        ids += generation_prompt_ids + turn.written_ids + turn.observation_ids
    return ids + generation_prompt_ids
