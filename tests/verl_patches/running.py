"""Starts a real training run of the tests' config in processes of its own, and ends all of them afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.verl_patches.tiny import REPOSITORY, environment

CONFIGS = Path(__file__).parent / "configs"


@dataclass
class Run:
    """One run: its process, its folder and its log."""

    process: subprocess.Popen[bytes]
    folder: Path
    log_path: Path

    def finish(self, timeout: float = 800.0) -> int:
        """Waits for the end; the exit code."""
        return self.process.wait(timeout)

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    @property
    def metrics(self) -> list[dict[str, Any]]:
        path = self.folder / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def trajectories(self, step: int) -> list[dict[str, Any]]:
        text = (self.folder / "trajectories" / f"step_{step}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def asked(self, step: int) -> list[str]:
        """The questions of a step."""
        return sorted({line["trajectory"]["task"]["id"] for line in self.trajectories(step)})

    def wait_for_step(self, step: int, timeout: float = 800.0) -> None:
        """Until the step is in metrics.jsonl (its checkpoint is complete then)."""
        deadline = time.monotonic() + timeout
        while not any(line["step"] >= step for line in self.metrics):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"step {step} was not reached:\n{self.log[-4000:]}")
            time.sleep(0.2)

    def kill(self) -> None:
        """SIGKILL to the whole run at once, as a machine that goes down."""
        _kill(self.process)


@contextmanager
def run(root: Path, *overrides: str) -> Iterator[Run]:
    """`python -m verl_patches.main` on the tests' config below `root`; nothing of it is left behind."""
    with tempfile.TemporaryDirectory(prefix="mp", ignore_cleanup_errors=True) as scratch:
        log_path = Path(scratch) / "log"
        command = [sys.executable, "-W", "ignore", "-m", "verl_patches.main", f"--config-path={CONFIGS}"]
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [*command, "--config-name=tiny", f"root={root}", *overrides],
                env=environment(Path(scratch)),
                cwd=REPOSITORY,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started = Run(process, root / "run", log_path)
        try:
            yield started
        finally:
            kill_family(process, Path(scratch))


def kill_family(process: subprocess.Popen[bytes], scratch: Path) -> None:
    """Leaves nothing of a run behind that has `scratch` as its Ray folder."""
    if process.poll() is None:
        _kill(process)
    _end_leftovers(str(scratch))


def _kill(process: subprocess.Popen[bytes]) -> None:
    for pid in family(process.pid):
        with _gone_is_fine():
            os.kill(pid, signal.SIGKILL)
    process.wait(30)


def family(pid: int) -> list[int]:
    """A process and all below it, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def _end_leftovers(scratch: str) -> None:
    """Ends what still has our Ray folder in its environment: only this run's processes have it."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with _gone_is_fine():
                if f"RAY_TMPDIR={scratch}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except (OSError, ProcessLookupError):
        return
