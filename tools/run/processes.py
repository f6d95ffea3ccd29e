"""Child processes that cannot outlive a run: not after Ctrl-C, not after an error, not after SIGKILL of the run itself."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 15.0  # Ray and vLLM need a moment to take down their own children


class Terminated(KeyboardInterrupt):
    """A signal that asks the run to end; handled as Ctrl-C is."""


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _die_with_parent() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def guarded(grace_s: float = GRACE_S) -> Iterator[None]:
    """Everything started inside is gone when the block ends, whichever way.

    Orphans (a daemon whose parent died) are handed to this process by the kernel, so they are found as well. SIGINT,
    SIGTERM and SIGHUP become `Terminated`, a `KeyboardInterrupt`.
    """
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    mine = descendants()
    # SIGINT too: a shell that starts a command in the background has it ignored, and Python then leaves it so.
    before = {
        number: signal.signal(number, _raise) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        # A second Ctrl-C must not stop the cleaning up.
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        try:
            end_children(grace_s, spare=mine)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            _prctl(PR_SET_CHILD_SUBREAPER, 0)


def _raise(number: int, frame: FrameType | None) -> None:
    raise Terminated(f"signal {signal.Signals(number).name}")


def start(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a child in a process group of its own, with its output appended to `log`; it dies when this process does."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=dict(environment) if environment is not None else None,
            cwd=folder,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the others in order
            preexec_fn=_die_with_parent,  # runs in the main thread's child; no thread of ours holds a lock then
        )


def wait(child: subprocess.Popen[bytes], every_s: float, tick: Callable[[], None]) -> int:
    """Waits for a child, calling `tick` again and again; returns its exit code."""
    while True:
        try:
            code = child.wait(every_s)
        except subprocess.TimeoutExpired:
            tick()
            continue
        tick()
        return code


def descendants() -> set[int]:
    """Process ids of all children of this process, theirs included."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def end_children(grace_s: float = GRACE_S, spare: set[int] | None = None) -> None:
    """Ends every descendant of this process: SIGTERM, `grace_s` seconds, SIGKILL, until none is left."""
    kept = spare or set()
    deadline = time.monotonic() + grace_s
    asked: set[int] = set()
    while True:
        children = [child for child in psutil.Process().children(recursive=True) if child.pid not in kept]
        if not children:
            return
        hurry = time.monotonic() > deadline
        for child in children:
            try:
                if hurry:
                    child.kill()
                elif child.pid not in asked:
                    child.terminate()
                    asked.add(child.pid)
            except psutil.NoSuchProcess:
                continue
        # Also reaps those that the kernel handed to us.
        psutil.wait_procs(children, timeout=0.2)
        if time.monotonic() > deadline + 10:
            return  # unkillable (uninterruptible sleep); nothing more can be done
