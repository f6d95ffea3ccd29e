"""The environment that the processes of a run get."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.run.machine import environment_for


def test_relative_folders_for_modules_of_the_users_hold_in_children_that_start_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = environment_for("cpu", {"PYTHONPATH": os.pathsep.join(["mine", "", "/theirs"])})
    assert found["PYTHONPATH"].split(os.pathsep) == [str(tmp_path / "mine"), "/theirs"]
    assert "PYTHONPATH" not in environment_for("cuda", {})


def test_what_the_user_has_set_stays() -> None:
    assert environment_for("cpu", {"OMP_NUM_THREADS": "8"})["OMP_NUM_THREADS"] == "8"
