"""One process per folder; the lock goes with the process, however that ends."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.run.errors import RunError

NAME = "lock"


@contextmanager
def only_one(folder: Path, remedy: str) -> Iterator[None]:
    """Holds the folder's lock.

    Raises:
        RunError: another process holds it; says what to do about it.
    """
    with (folder / NAME).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another process works in {folder}: wait for it, or {remedy}") from None
        yield


def wait_until_free(folder: Path, seconds: float) -> bool:
    """Waits for a process that is about to end, e.g. one whose parent was killed; whether the folder is free."""
    if not (folder / NAME).exists():
        return True
    deadline = time.monotonic() + seconds
    with (folder / NAME).open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.2)
                continue
            return True
