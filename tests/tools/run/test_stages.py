"""Stages are done once per input; caches are built once per content."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.run.cache import DONE, cached
from tools.run.stages import Stages


def silent(line: str) -> None:
    pass


def test_a_stage_is_done_once_per_input(tmp_path: Path) -> None:
    calls: list[int] = []

    def work() -> dict[str, int]:
        calls.append(1)
        return {"n": len(calls)}

    for _ in range(2):
        assert Stages(tmp_path, silent).run("data", {"seed": 1}, work) == {"n": 1}
    assert Stages(tmp_path, silent).run("data", {"seed": 2}, work) == {"n": 2}


def test_a_lost_result_is_made_again(tmp_path: Path) -> None:
    stages = Stages(tmp_path, silent)
    stages.run("data", {}, lambda: {"n": 1})
    assert stages.run("data", {}, lambda: {"n": 2}, intact=lambda result: False) == {"n": 2}


def test_a_failed_stage_leaves_no_note(tmp_path: Path) -> None:
    def fail() -> dict[str, int]:
        raise ValueError("no")

    stages = Stages(tmp_path, silent)
    with pytest.raises(ValueError, match="no"):
        stages.run("data", {}, fail)
    assert stages.note("data") is None


def test_a_torn_note_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"inputs": {')
    assert Stages(tmp_path, silent).run("data", {}, lambda: {"n": 3}) == {"n": 3}


def test_a_cache_is_built_once_and_keyed_by_its_values(tmp_path: Path) -> None:
    built: list[Path] = []
    first = cached(tmp_path, {"a": 1}, built.append)
    assert cached(tmp_path, {"a": 1}, built.append) == first
    assert cached(tmp_path, {"a": 2}, built.append) != first
    assert len(built) == 2


def test_an_interrupted_build_begins_anew(tmp_path: Path) -> None:
    def torn(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, {"a": 1}, torn)
    folder = cached(tmp_path, {"a": 1}, lambda folder: (folder / "whole").touch())
    assert sorted(path.name for path in folder.iterdir()) == [DONE, "whole"]
