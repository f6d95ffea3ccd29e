"""Rewards and other functions for the process pool; in a module, for another process must be able to import them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mempo import call_server
from mempo.agents.base import RolloutError
from mempo.answers import AnswerScore
from mempo.task import Reference
from mempo.trajectory import Trajectory
from mempo.verifiers import Verdict, pooled, tagged

NOT_A_FUNCTION = 3


@pooled(deadline_s=60)
def in_another_process(trajectory: Trajectory, reference: Reference, score: AnswerScore) -> Verdict:
    """`tagged`, which refuses to run where the rollouts do."""
    if os.getsid(0) != os.getpid():
        raise AssertionError("this reward was to run in the pool, whose processes lead a session each")
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


def says(right: Any, reason: Any = None) -> Callable[..., Verdict]:
    """A verifier that always returns this."""
    return lambda trajectory, reference, score: Verdict(right, reason)


a_nan = says([float("nan")])
points = says([2.5])
a_one = says([1])
a_text = says(["True"])
a_none = says([None])
no_list = says(True)
a_word = says("T")
nested = says([[True]])
two_too_many = says([True, True, True])
a_reason_of_its_own = says([True], "too long")
numpy_bools = says(np.array([True]))
one_numpy_bool = says([np.True_])


@pooled(deadline_s=60)
def a_nan_from_the_pool(trajectory: Trajectory, reference: Reference, score: AnswerScore) -> Verdict:
    return Verdict([float("nan")], None)  # type: ignore[list-item]


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


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise KeyError("text")


def raise_unspeakable() -> None:
    raise Unspeakable


class Unreadable:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return int, ("no number",)


def return_unreadable() -> Unreadable:
    return Unreadable()


def hold_the_interpreter(path: str) -> None:
    """C code that runs for longer than any test, and lets no other thread of its process run."""
    Path(path).write_text(str(os.getpid()), encoding="utf-8")
    re.match(r"(a+)+$", "a" * 60 + "b")


def start_another(path: str) -> None:
    """Waits for a process of its own, whose number it leaves in `path`."""
    with subprocess.Popen(["sleep", "1000"]) as started:
        Path(path).write_text(str(started.pid), encoding="utf-8")


def start_another_and_die(path: str) -> None:
    """Dies, but leaves a process that has inherited all there is to inherit."""
    started = subprocess.Popen(["sleep", "1000"], close_fds=False)
    Path(path).write_text(str(started.pid), encoding="utf-8")
    os._exit(3)


def reply_by_half(then: str) -> bytes:
    """Its reply stops in the middle: the process dies (`die`) or hangs (`hang`) then."""
    whole = call_server._send

    def half(caller: socket.socket, message: bytes) -> None:
        if not message:
            return whole(caller, message)
        caller.sendall(call_server.LENGTH.pack(len(message)))
        caller.sendall(message[: len(message) // 2])
        if then == "die":
            os._exit(9)
        time.sleep(1000)
        return None

    call_server._send = half
    return bytes(10_000_000)


def fork_and_die(path: str) -> None:
    """Dies, but leaves a child that has all its files open."""
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    Path(path).write_text(str(child), encoding="utf-8")
    os._exit(3)


FATES = {"die": die, "refuse": refuse, "leave": leave, "give_up": give_up}
