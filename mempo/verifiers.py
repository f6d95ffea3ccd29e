"""What counts as a right answer, by name: training and evaluation look it up here, so that every number has one meaning.

A name is one of `VERIFIERS`, or `package.module:function` for a reward of your own.

`tagged` is MemPO's rule for agents that answer in tags. The three for answers in a box are those of MemAgent and of its
re-implementation; whoever reports one of them reports its name: the same model may score 50 % by one and 80 % by another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mempo.agents.base import RolloutError
from mempo.answers import AnswerScore, score_answer, split_objectives, sub_exact_match
from mempo.imported import imported
from mempo.tags import FormatReason, validate_format
from mempo.task import Reference
from mempo.trajectory import Trajectory


@dataclass(frozen=True)
class Verdict:
    """What a verifier says.

    Attributes:
        right: True or False (numpy's will do) for each objective, the format left aside.
        format_reason: None if the answer has the form that the verifier asks for; otherwise nothing is earned.
    """

    right: list[bool]
    format_reason: FormatReason | None


Verifier = Callable[[Trajectory, Reference, AnswerScore], Verdict]


def pooled(*, deadline_s: float) -> Callable[[Verifier], Verifier]:
    """Decorates a verifier that computes for long: it asks for the process pool (`mempo.pool`).

    Args:
        deadline_s: seconds that one verdict may take; a rollout that takes longer fails with `pool_deadline`. The start of
            a process is not counted; what the verifier imports is, once in each process.
    """
    if deadline_s <= 0:
        raise ValueError(f"pooled: deadline_s is {deadline_s}, it must be above 0")

    def mark(verifier: Verifier) -> Verifier:
        marked: Any = verifier
        marked.pool_deadline_s = deadline_s
        return verifier

    return mark


def tagged(trajectory: Trajectory, reference: Reference, score: AnswerScore) -> Verdict:
    """Normalised exact match, and every rule of the turn grammar kept (MemPO)."""
    return Verdict(list(score.em), validate_format(trajectory))


def boxed_exact(trajectory: Trajectory, reference: Reference, score: AnswerScore) -> Verdict:
    """The text in the box is a gold answer, character by character but for spaces around it (MemAgent's training)."""
    answer = trajectory.final_answer()
    said = split_objectives(answer or "", len(reference.answers))
    right = [
        bool(text) and text in [alias.strip() for alias in aliases]
        for text, aliases in zip(said, reference.answers, strict=True)
    ]
    return Verdict(right, _box_reason(answer))


def boxed_em(trajectory: Trajectory, reference: Reference, score: AnswerScore) -> Verdict:
    """Normalised exact match of the text in the box."""
    return Verdict(list(score.em), _box_reason(trajectory.final_answer()))


def lenient(trajectory: Trajectory, reference: Reference, score: AnswerScore) -> Verdict:
    """A gold answer stands in what was said as whole words; case, articles and punctuation are ignored.

    What was said is the text in the box, or all of the final turn where there is no box. Of several objectives each may
    stand anywhere in it, as RULER counts (Hsieh et al. 2024). Not for training: it rewards lists of guesses.
    """
    said = trajectory.final_answer()
    if said is None and trajectory.turns:
        said = trajectory.turns[-1].thought
    return Verdict([sub_exact_match(said or "", aliases) for aliases in reference.answers], None)


def _box_reason(answer: str | None) -> FormatReason | None:
    return FormatReason.BOX_MISSING if answer is None else None


VERIFIERS: dict[str, Verifier] = {
    "tagged": tagged,
    "boxed_exact": boxed_exact,
    "boxed_em": boxed_em,
    "lenient": lenient,
}
# Reported side by side wherever answers are boxed.
BOXED = ("boxed_exact", "boxed_em", "lenient")
# Never a reward to train on: they can be had by listing guesses.
NOT_FOR_TRAINING = ("lenient",)


def verify(name: str, trajectory: Trajectory, reference: Reference) -> tuple[AnswerScore, Verdict]:
    """The scores of the final answer, and what the verifier `name` makes of the trajectory.

    Raises:
        RolloutError: `bad_verdict`, for what is no verdict on this reference, naming verifier and task: a number that is no
            outcome would become the reward of a whole group.
        ValueError: for an unknown name.
    """
    verifier = _named(name)
    score = score_answer(trajectory.final_answer(), reference.answers)
    verdict = verifier(trajectory, reference, score)
    wrong = _wrong(verdict, len(reference.answers))
    if wrong is not None:
        raise RolloutError(
            "bad_verdict",
            f"agent.verifier {name!r} returned {wrong} for task {trajectory.task.id!r}: return a "
            f"mempo.verifiers.Verdict with True or False in `right` for each objective ({len(reference.answers)}), and "
            "a FormatReason or None in `format_reason`",
        )
    return score, Verdict([bool(entry) for entry in verdict.right], verdict.format_reason)


def _wrong(verdict: Any, objectives: int) -> str | None:
    """What of a verdict breaks the contract, in words; None if nothing does."""
    if not isinstance(verdict, Verdict):
        return _shown(verdict)
    right: Any = verdict.right
    listed = isinstance(right, list | tuple) or (isinstance(right, np.ndarray) and right.ndim == 1)
    if not listed or len(right) != objectives:
        return f"`right` = {_shown(right)}"
    for number, entry in enumerate(right, 1):
        if not isinstance(entry, bool | np.bool_):
            return f"{_shown(entry)} as entry {number} of `right`"
    if not isinstance(verdict.format_reason, FormatReason | None):
        return f"`format_reason` = {_shown(verdict.format_reason)}"
    return None


def _shown(value: Any) -> str:
    """Whatever a function of a user's own has returned, briefly."""
    return f"{type(value).__name__} {str(value)[:80]!r}"


def pool_deadline(name: str) -> float | None:
    """Seconds that the verifier `name` may take in the process pool; None if it does not ask for the pool.

    Raises:
        ValueError: for an unknown name.
    """
    return getattr(_named(name), "pool_deadline_s", None)


def check_verifier(name: str) -> None:
    """Raises ValueError for an unknown name, listing those there are."""
    _named(name)


def _named(name: str) -> Verifier:
    return VERIFIERS[name] if name in VERIFIERS else imported("agent.verifier", name, VERIFIERS)
