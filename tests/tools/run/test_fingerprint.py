"""A run folder belongs to one config."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tools.run.errors import RunError
from tools.run.fingerprint import check_same

CONFIG = {
    "memory": {"weight": 1.0},
    "trainer": {"total_training_steps": 5, "v1": {"trainer_mode": "sync"}},
    "run": {"path": "/a", "name": "x"},
    "search": {"url": None, "topk": 3},
}


def test_the_same_config_may_resume(tmp_path: Path) -> None:
    for _ in range(2):
        check_same(tmp_path, OmegaConf.create(CONFIG))


def test_another_value_is_refused_with_old_and_new(tmp_path: Path) -> None:
    check_same(tmp_path, OmegaConf.create(CONFIG))
    other = OmegaConf.create(CONFIG)
    other.memory.weight, other.trainer.v1.trainer_mode = 0.5, "colocate_async"
    with pytest.raises(RunError) as refusal:
        check_same(tmp_path, other)
    assert "memory.weight: 1.0 -> 0.5" in str(refusal.value)
    assert "trainer.v1.trainer_mode: sync -> colocate_async" in str(refusal.value)
    assert "run.name" in str(refusal.value)


def test_a_new_and_a_missing_key_are_differences(tmp_path: Path) -> None:
    check_same(tmp_path, OmegaConf.create(CONFIG))
    other = OmegaConf.create({**CONFIG, "agent": {"context": "history"}})
    with pytest.raises(RunError, match=r"agent\.context: \(not set\) -> history"):
        check_same(tmp_path, other)


def test_more_steps_and_another_place_are_allowed(tmp_path: Path) -> None:
    check_same(tmp_path, OmegaConf.create(CONFIG))
    other = OmegaConf.create(CONFIG)
    other.trainer.total_training_steps, other.search.url, other.run.path = 9, "http://x:1", "/b"
    check_same(tmp_path, other)


def test_changed_input_files_are_a_difference(tmp_path: Path) -> None:
    check_same(tmp_path, OmegaConf.create(CONFIG), {"task.files": ["aa"]})
    with pytest.raises(RunError, match=r"task\.files"):
        check_same(tmp_path, OmegaConf.create(CONFIG), {"task.files": ["bb"]})
