"""A run folder belongs to one config."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tools.run.errors import RunError
from tools.run.fingerprint import NAME, check_same
from tools.run.settings import find_recipe, load_config

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


FILTER = "algorithm.filter_groups"


def earlier(folder: Path) -> None:
    """The fingerprint of a run that was started before our recipes had keys of dynamic sampling: verl's own value."""
    check_same(folder, load_config(find_recipe("cpu"), []))
    keys = json.loads((folder / NAME).read_text())
    assert keys[f"{FILTER}.max_num_gen_batches"] == 10
    (folder / NAME).write_text(json.dumps({**keys, f"{FILTER}.max_num_gen_batches": 0}))


def test_a_run_from_before_dynamic_sampling_may_resume(tmp_path: Path) -> None:
    earlier(tmp_path)
    check_same(tmp_path, load_config(find_recipe("cpu"), []))
    check_same(tmp_path, load_config(find_recipe("cpu"), [f"{FILTER}.metric=f1"]))


def test_dynamic_sampling_in_one_of_the_two_is_a_difference(tmp_path: Path) -> None:
    earlier(tmp_path)
    with pytest.raises(RunError) as refusal:
        check_same(tmp_path, load_config(find_recipe("cpu"), [f"{FILTER}.enable=true"]))
    assert f"{FILTER}.enable: False -> True" in str(refusal.value)
    assert f"{FILTER}.max_num_gen_batches: 0 -> 10" in str(refusal.value)
    (tmp_path / NAME).unlink()
    check_same(tmp_path, load_config(find_recipe("cpu"), [f"{FILTER}.enable=true"]))
    with pytest.raises(RunError, match=f"{FILTER}.enable: True -> False"):
        check_same(tmp_path, load_config(find_recipe("cpu"), []))
    with pytest.raises(RunError, match=f"{FILTER}.metric: reward -> f1"):
        check_same(
            tmp_path, load_config(find_recipe("cpu"), [f"{FILTER}.enable=true", f"{FILTER}.metric=f1"])
        )


@pytest.mark.parametrize("name", ["summary.json", "metrics.jsonl"])
def test_a_folder_of_something_else_is_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    (tmp_path / "lock").touch()
    with pytest.raises(RunError, match=rf"{name} is there, and {NAME} is not: .*choose another run\.name"):
        check_same(tmp_path, OmegaConf.create({"a": 1}))
    assert not (tmp_path / NAME).exists()
