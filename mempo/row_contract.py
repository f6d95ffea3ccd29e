"""What must hold of a trajectory before its turns become training rows."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING

from mempo.turn import MemoryStatus, Turn, context_ids

if TYPE_CHECKING:
    from mempo.trajectory import Trajectory

# A log-prob may exceed 0 by this much. Engines compute in float32, whose rounding of logits in the hundreds stays below
# 1e-4; what is no log-prob at all (a probability, a wrong sign) is above it sooner or later.
LOGPROB_TOLERANCE = 1e-3


class ContractViolation(ValueError):
    """A trajectory that cannot have come about by the rules: a fault of ours, never the model's. It fails the step."""


def check_contract(trajectory: Trajectory) -> None:
    """Holds a trajectory against the rules.

    In every context: log-probs are as many as the tokens, finite, and not above 0 but by rounding; memories lie inside what
    their turn wrote; a prompt is what the turns before it say. In a rewritten context the agent alone knows its prompts.
    There it is held that the turns are memories and then one answer, that each prompt shows the memory before it where the
    turn says so, that no prompt goes on from another one (the whole of it in front), and that the final prompt is the
    memory's frame and nothing else. What else a memory turn's prompt shows, an earlier chunk or memory among it, is the
    agent's duty, as are its caps and the completeness of a generation.

    Raises:
        ContractViolation: if any of this does not hold, naming task and turn.
    """
    for index, turn in enumerate(trajectory.turns):
        _check_turn(trajectory, index, turn)
    if trajectory.context.rewritten:
        _check_apart(trajectory)


def _check_turn(trajectory: Trajectory, index: int, turn: Turn) -> None:
    where = f"trajectory {trajectory.task.id!r}, turn {index + 1}"
    if len(turn.logprobs) != len(turn.response_ids):
        raise ContractViolation(
            f"{where}: {len(turn.logprobs)} log-probs for {len(turn.response_ids)} response tokens"
        )
    if not turn.response_ids:
        raise ContractViolation(f"{where}: the response is empty")
    # The sum is not finite if any of them is not; only then can the maximum be trusted. Both run at C's speed.
    if not isfinite(sum(turn.logprobs)) or max(turn.logprobs) > LOGPROB_TOLERANCE:
        raise ContractViolation(f"{where}: {_bad_logprob(turn.logprobs)}")
    if not _inside(turn.memory_span, len(turn.prefix_ids) + len(turn.response_ids)):
        raise ContractViolation(
            f"{where}: the memory is said to be tokens {turn.memory_span} of {len(turn.written_ids)} written ones"
        )
    if trajectory.context.rewritten:
        _check_rewritten(trajectory, where, index, turn)
        return
    shown = context_ids(
        trajectory.first_prompt_ids,
        trajectory.generation_prompt_ids,
        trajectory.turns[:index],
        trajectory.context,
    )
    if turn.prompt_ids != shown:
        raise ContractViolation(
            f"{where}: the prompt is not the {trajectory.context} context of the turns before it"
        )


def _check_rewritten(trajectory: Trajectory, where: str, index: int, turn: Turn) -> None:
    """Memories and then one answer, which is shown the last memory in its frame and nothing else."""
    if trajectory.memory_frame is None:
        raise ContractViolation(f"{where}: a rewritten context without a memory frame")
    before = trajectory.turns[index - 1].memory_ids if index else trajectory.memory_frame.empty_ids
    if before is None:
        raise ContractViolation(
            f"{where}: the turn before it wrote no memory; memory turns are followed by exactly one final turn"
        )
    if index == len(trajectory.turns) - 1:
        if turn.memory_status is not MemoryStatus.NONE or not index:
            raise ContractViolation(f"{where}: the last turn is not a final turn after a memory turn")
        if turn.prompt_ids != trajectory.memory_frame.around(before):
            raise ContractViolation(
                f"{where}: the final prompt holds something other than question, last memory and answer format"
            )
    elif turn.memory_span is None:
        raise ContractViolation(
            f"{where}: no memory, but it is not the last turn; exactly one final turn may follow the memory turns"
        )
    elif (
        turn.shown_memory is None
        or not _inside(turn.shown_memory, len(turn.prompt_ids))
        or turn.prompt_ids[slice(*turn.shown_memory)] != before
    ):
        raise ContractViolation(f"{where}: the prompt does not show the memory of the turn before it")


def _check_apart(trajectory: Trajectory) -> None:
    """Every prompt is a conversation of its own; the same prompt twice is (a document may repeat itself)."""
    # In the order of their ids a prompt stands right before those that begin with it.
    order = sorted(range(len(trajectory.turns)), key=lambda index: trajectory.turns[index].prompt_ids)
    for first, second in pairwise(order):
        shorter, longer = trajectory.turns[first].prompt_ids, trajectory.turns[second].prompt_ids
        if len(shorter) < len(longer) and longer[: len(shorter)] == shorter:
            raise ContractViolation(
                f"trajectory {trajectory.task.id!r}, turn {second + 1}: the prompt begins with all of turn {first + 1}'s; in a "
                "rewritten context every prompt is written anew"
            )


def _inside(span: tuple[int, int] | None, length: int) -> bool:
    return span is None or 0 <= span[0] <= span[1] <= length


def _bad_logprob(logprobs: list[float]) -> str:
    """The first that is none; a finite list whose sum overflows has one of an absurd size."""
    for place, value in enumerate(logprobs, 1):
        if not isfinite(value) or value > LOGPROB_TOLERANCE:
            return f"the log-prob of response token {place} is {value}; it must be finite and at most 0"
    return f"the log-probs of the response add up to {sum(logprobs)}"
