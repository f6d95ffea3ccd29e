"""Copies of our packages on PYTHONPATH are named before they are imported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.run import machine
from tools.run.errors import RunError
from tools.run.places import ROOT
from tools.run.shadows import shadows


@pytest.fixture
def installed(tmp_path: Path) -> list[Path]:
    for name in ("verl", "httpx", "tests"):
        (tmp_path / "site" / name).mkdir(parents=True)
        (tmp_path / "site" / name / "__init__.py").touch()
    return [tmp_path / "site"]


@pytest.mark.parametrize("other", ["verl/__init__.py", "httpx.py", "mempo/__init__.py", "random.py"])
def test_a_folder_with_another_copy_is_named(tmp_path: Path, installed: list[Path], other: str) -> None:
    path = tmp_path / "theirs" / other
    path.parent.mkdir(parents=True)
    path.touch()
    (line,) = shadows(os.pathsep.join(["", str(tmp_path / "theirs")]), installed)
    assert str(tmp_path / "theirs") in line and other.split("/")[0].removesuffix(".py") in line


def test_folders_that_hide_nothing_pass(tmp_path: Path, installed: list[Path]) -> None:
    for other in ("verl", "own"):  # the first has no __init__.py and gives way
        (tmp_path / "theirs" / other).mkdir(parents=True)
    for other in ("own", "tests"):
        (tmp_path / "theirs" / other).mkdir(parents=True, exist_ok=True)
        (tmp_path / "theirs" / other / "__init__.py").touch()
    path = os.pathsep.join(map(str, [tmp_path / "theirs", tmp_path / "missing", ROOT, installed[0]]))
    assert shadows(path, installed) == []


def test_a_run_does_not_start_with_another_verl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(machine, "check_lock", lambda path: None)
    monkeypatch.setattr(machine, "installed_set", lambda: "cpu")
    with pytest.raises(RunError, match="PYTHONPATH has .* verl"):
        machine.check_installation("cpu")
