"""A full disk ends a run with one line, and what is written at the end does not bury it."""

from __future__ import annotations

import errno
import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from rich.console import Console

from tests.verl_patches.saved import checkpoint
from tools.run import pipeline
from tools.run.errors import RunError
from tools.run.files import write_text
from tools.run.pipeline import Pipeline
from tools.run.progress import Teller
from tools.run.stages import Stages
from tools.run.training import RunFolder, full_disk_behind
from tools.run.wall import Wall

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A pipeline over a folder whose stages are a function; what it says."""
    monkeypatch.setattr(pipeline, "data_inputs", lambda config: {})
    monkeypatch.setattr(pipeline, "check_same", lambda *rest: None)
    monkeypatch.setattr(pipeline, "describe", lambda: {})

    def make(folder: Path, work: Any) -> tuple[Pipeline, io.StringIO]:
        said = io.StringIO()
        config = OmegaConf.create({"run": {"path": str(folder)}})
        one = Pipeline(config, Teller(Console(file=said, width=300)))
        monkeypatch.setattr(one, "_run", lambda data: one.stages.run("train", {}, work))
        return one, said

    return make


def refuse(*rest: Any, **more: Any) -> None:
    raise FULL


def test_the_first_error_is_told_and_those_of_tidying_up_do_not_bury_it(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(tmp_path / "checkpoints", 2)
    one, said = made(tmp_path, refuse)
    monkeypatch.setattr(Wall, "write", refuse)
    monkeypatch.setattr(pipeline, "write_readable", refuse)
    with pytest.raises(RunError) as caught:
        one.run()
    line = str(caught.value)
    assert line.startswith("disk full: while writing the files of the stage train (")
    assert line.endswith("last complete checkpoint: step 2; free space and start the same command again")
    assert "\n" not in line
    assert said.getvalue().count("not written at the end") == 2


def test_another_error_is_not_buried_either(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RunError("the cause")

    one, _ = made(tmp_path, fail)
    monkeypatch.setattr(Wall, "write", refuse)
    (tmp_path / "trajectories").mkdir()
    (tmp_path / "trajectories" / "step_1.jsonl").write_text("{")
    with pytest.raises(RunError, match="^the cause$"):
        one.run()


def test_a_wall_clock_that_cannot_be_written_does_not_end_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall(tmp_path / "wall.json")
    monkeypatch.setattr(Wall, "write", refuse)
    wall._written -= 60
    wall.tick()


def test_a_small_file_is_named_and_leaves_no_half_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(OSError, match="No space left") as caught:
        write_text(tmp_path / "summary.json", "{}")
    assert caught.value.filename == str(tmp_path / "summary.json")
    assert list(tmp_path.iterdir()) == []


def test_a_log_on_the_full_disk_does_not_hide_why_training_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path)
    checkpoint(folder.checkpoints, 4)
    told = "the last lines:\nOSError: [Errno 28] No space left on device"
    assert "last complete checkpoint: step 4" in str(full_disk_behind(told, folder))
    assert full_disk_behind("the last lines:\nstep 4", folder) is None
    monkeypatch.setattr("verl_patches.disk.free_mib", lambda path: 0)
    assert "disk full" in str(full_disk_behind("the last lines:\nstep 4", folder))
    told = "disk full: while writing x; last complete checkpoint: step 4; free space"
    assert full_disk_behind(told, folder) is None, "said already"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs is not permitted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_is_really_full(made: Any, small_disk: Path) -> None:
    run = small_disk / "run"
    checkpoint(run / "checkpoints", 2)

    def work() -> dict[str, Any]:
        torch.save({"a": torch.zeros(1 << 20)}, run / "checkpoints" / "big.pt")
        return {}

    one, said = made(run, work)
    with pytest.raises(RunError, match=r"\(0 MiB free.*last complete checkpoint: step 2"):
        one.run()
    assert "not written at the end: the wall clock" in said.getvalue()
    (run / "checkpoints" / "big.pt").unlink()
    assert Stages(run / "stages", lambda line: None).note("train") is None, "the stage is done again"
