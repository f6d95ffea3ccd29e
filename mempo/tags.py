"""The grammar of a turn, and the format rules of a trajectory, each failure with a name.

A turn reads `<mem>…</mem> <think>…</think>` and then `<search>…</search>` or `<answer>…</answer>`; for an agent
without a memory it begins with `<think>`. Only what the model wrote is parsed; observations never pass through here,
so a tag inside a retrieved page means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mempo.trajectory import Action, MemoryStatus, StopReason, Trajectory


class FormatReason(StrEnum):
    """Why a turn or a trajectory breaks the format; each value doubles as the name in metrics."""

    MEMORY_MISSING = "memory_missing"  # a turn has no <mem>
    MEMORY_UNCLOSED = "memory_unclosed"
    MEMORY_NOT_FIRST = "memory_not_first"  # something stands before <mem>
    MEMORY_REPEATED = "memory_repeated"
    THOUGHT_MISSING = "thought_missing"  # a turn has no <think>
    THOUGHT_UNCLOSED = "thought_unclosed"
    THOUGHT_REPEATED = "thought_repeated"
    THOUGHT_NOT_FIRST = "thought_not_first"  # something stands before <think>, for an agent without a memory
    OUT_OF_ORDER = "out_of_order"  # memory, thought, action do not follow each other
    ACTION_MISSING = "action_missing"  # neither <search> nor <answer>
    ACTION_REPEATED = "action_repeated"  # more than one <search> or <answer> in a turn
    SEARCH_UNCLOSED = "search_unclosed"
    ANSWER_UNCLOSED = "answer_unclosed"
    TEXT_AFTER_ACTION = "text_after_action"
    SEARCH_MISSING = "search_missing"  # the trajectory never searched
    SEARCH_UNPAIRED = "search_unpaired"  # a search without a tool response
    ANSWER_MISSING = "answer_missing"
    BOX_MISSING = "box_missing"  # an agent that answers in \boxed{} gave no closed box
    NOT_ENDED = "not_ended"  # an answer was given, but the turn ran into its limit


# ASCII only: the text may be bytes as latin-1, where \xa0 and \x85 are halves of real characters.
_BLANK = " \t\r\n\f\v"


@dataclass(frozen=True)
class ParsedTurn:
    """What a turn says; `memory_chars` is the half-open span from `<` of `<mem>` to after `>` of `</mem>`."""

    memory_chars: tuple[int, int] | None
    memory_status: MemoryStatus
    memory: str
    thought: str | None
    action: Action
    problem: FormatReason | None


@dataclass(frozen=True)
class _Block:
    start: int  # of the opening tag
    end: int  # after the closing tag, or the end of the text
    text: str
    closed: bool


def _find(text: str, tag: str, start: int) -> _Block | None:
    opening, closing = f"<{tag}>", f"</{tag}>"
    begin = text.find(opening, start)
    if begin < 0:
        return None
    inner = begin + len(opening)
    end = text.find(closing, inner)
    if end < 0:
        return _Block(begin, len(text), text[inner:].strip(_BLANK), False)
    return _Block(begin, end + len(closing), text[inner:end].strip(_BLANK), True)


def parse_turn(text: str, *, keeps_memory: bool = True) -> ParsedTurn:
    """Reads one assistant turn (forced prefix included, end-of-turn token left out).

    The action is the first closed `<search>` or `<answer>` outside memory and thought. An unclosed block swallows
    the rest of the turn, so nothing after it counts as an action.

    Args:
        keeps_memory: whether the agent has a memory. Without one `<mem>` is no tag, and the memory is always missing.
    """
    memory = _find(text, "mem", 0) if keeps_memory else None
    thought = _find(text, "think", memory.end if memory else 0)
    body = max(memory.end if memory else 0, thought.end if thought else 0)
    blocks = [(kind, _find(text, kind, body)) for kind in ("search", "answer")]
    found = sorted(
        ((block.start, kind, block) for kind, block in blocks if block), key=lambda entry: entry[0]
    )
    action, action_block = Action("none", ""), None
    if found:
        _, kind, action_block = found[0]
        if action_block.closed:
            action = Action("search" if kind == "search" else "answer", action_block.text)
    said = found[0][1] if found else None
    problem = _memory_problem(text, memory) if keeps_memory else _opening_problem(text, thought)
    problem = problem or _problem(text, thought, said, action_block, keeps_memory=keeps_memory)
    if action.kind == "none":
        action.problem = problem.value if problem else None
    status = MemoryStatus.MISSING
    if memory:
        status = MemoryStatus.CLOSED if memory.closed else MemoryStatus.UNCLOSED
    return ParsedTurn(
        memory_chars=(memory.start, memory.end) if memory and memory.closed else None,
        memory_status=status,
        memory=memory.text if memory else "",
        thought=thought.text if thought else None,
        action=action,
        problem=problem,
    )


def _memory_problem(text: str, memory: _Block | None) -> FormatReason | None:
    if memory is None:
        return FormatReason.MEMORY_MISSING
    if not memory.closed:
        return FormatReason.MEMORY_UNCLOSED
    if text[: memory.start].strip(_BLANK):
        return FormatReason.MEMORY_NOT_FIRST
    return None


def _opening_problem(text: str, thought: _Block | None) -> FormatReason | None:
    early = text[: thought.start].strip(_BLANK) if thought else ""
    return FormatReason.THOUGHT_NOT_FIRST if early else None


def _problem(
    text: str, thought: _Block | None, kind: str | None, action: _Block | None, *, keeps_memory: bool
) -> FormatReason | None:
    if thought is None:
        return FormatReason.OUT_OF_ORDER if "<think>" in text else FormatReason.THOUGHT_MISSING
    if not thought.closed:
        return FormatReason.THOUGHT_UNCLOSED
    if keeps_memory and (text.count("<mem>") != 1 or text.count("</mem>") != 1):
        return FormatReason.MEMORY_REPEATED
    if text.count("<think>") != 1 or text.count("</think>") != 1:
        return FormatReason.THOUGHT_REPEATED
    if action is None:
        acted = any(f"<{tag}>" in text for tag in ("search", "answer"))
        return FormatReason.OUT_OF_ORDER if acted else FormatReason.ACTION_MISSING
    if not action.closed:
        return FormatReason.SEARCH_UNCLOSED if kind == "search" else FormatReason.ANSWER_UNCLOSED
    if sum(text.count(f"<{tag}>") for tag in ("search", "answer")) != 1:
        return FormatReason.ACTION_REPEATED
    if text[action.end :].strip(_BLANK):
        return FormatReason.TEXT_AFTER_ACTION
    return None


def validate_format(trajectory: Trajectory) -> FormatReason | None:
    """The first broken format rule of a trajectory, or None (MemPO's eight rules and their usual additions).

    What a turn has to hold its agent decided when it read it (`parse_turn`), so an agent without a memory owes none.
    """
    for index, turn in enumerate(trajectory.turns):
        if turn.format_problem is not None:
            return FormatReason(turn.format_problem)
        last = index == len(trajectory.turns) - 1
        if turn.action.kind == "search" and (last or not turn.observation_ids):
            return FormatReason.SEARCH_UNPAIRED
    # A single-shot agent is shown what a search of its own found: then a turn searched without saying so.
    if not any(
        turn.action.kind == "search" or turn.observation_status != "none" for turn in trajectory.turns
    ):
        return FormatReason.SEARCH_MISSING
    if trajectory.final_answer() is None:
        return FormatReason.ANSWER_MISSING
    if trajectory.stop is not StopReason.ANSWERED:
        return FormatReason.NOT_ENDED
    return None
