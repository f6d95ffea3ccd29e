"""Rewards and other functions for the process pool; in a module, for another process must be able to import them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mempo.agents.base import RolloutError
from mempo.answers import AnswerScore
from mempo.task import Reference
from mempo.trajectory import Trajectory
from mempo.verifiers import Verdict, pooled, tagged

NOT_A_FUNCTION = 3


@pooled(deadline_s=60)
def in_another_process(trajectory: Trajectory, reference: Reference, score: AnswerScore) -> Verdict:
    """`tagged`, which refuses to run where the rollouts do."""
    import multiprocessing

    if multiprocessing.parent_process() is None:
        raise AssertionError("this reward was to run in the pool")
    return tagged(trajectory, reference, score)


@pooled(deadline_s=60)
def told(trajectory: Trajectory, reference: Reference, score: AnswerScore) -> Verdict:
    """`tagged`, but for what the reference's `supporting` tells it to do first: `FATE`, or `FATE argument`."""
    fate, _, argument = (*reference.supporting, "")[0].partition(" ")
    if fate == "spin_until":
        spin_until(argument)
    elif fate:
        FATES[fate]()
    return tagged(trajectory, reference, score)


@pooled(deadline_s=60)
def dies_of_a_wrong_answer(trajectory: Trajectory, reference: Reference, score: AnswerScore) -> Verdict:
    if not all(score.em):
        os._exit(3)
    return tagged(trajectory, reference, score)


def half_a_verdict(trajectory: Trajectory, reference: Reference, score: AnswerScore) -> Verdict:
    return Verdict([], None)


def a_number(trajectory: Trajectory, reference: Reference, score: AnswerScore) -> float:
    return 1.0


def spin_until(path: str) -> None:
    """Computes and computes, until the file is there."""
    while not Path(path).exists():
        pass


def touch_and_spin(path: str) -> None:
    Path(path).touch()
    spin_until(f"{path}.never")


def die() -> None:
    os._exit(3)


def refuse() -> None:
    raise ValueError("no such answer")


def leave() -> None:
    sys.exit(2)


def give_up() -> None:
    raise RolloutError("sandbox_full", "no sandbox is free")


def unpicklable() -> object:
    return lambda: None


FATES = {"die": die, "refuse": refuse, "leave": leave, "give_up": give_up}
