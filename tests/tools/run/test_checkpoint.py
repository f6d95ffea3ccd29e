"""Where a run goes on is told in its plan, and a pointer that names nothing whole is put right before training."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from tests.verl_patches.saved import checkpoint
from tools.run.checkpoint import latest, resumption


def config(folder: Path, mode: str = "auto", path: Path | None = None) -> DictConfig:
    contents = ["model", "optimizer", "extra", "hf_model"]
    return OmegaConf.create(
        {
            "trainer": {
                "default_local_dir": str(folder),
                "resume_mode": mode,
                "resume_from_path": str(path),
                "v1": {"trainer_mode": "sync"},
            },
            "actor_rollout_ref": {"actor": {"checkpoint": {"load_contents": contents}}},
        }
    )


def test_half_a_checkpoint_is_named_and_looking_changes_nothing(tmp_path: Path) -> None:
    checkpoint(tmp_path, 2)
    (checkpoint(tmp_path, 4) / "data.pt").unlink()
    found = resumption(config(tmp_path))
    assert found.checkpoint is not None
    assert (found.checkpoint.step, found.problem) == (2, None)
    assert found.notes == [
        "going on from the checkpoint of step 2 (step 4 is left aside: data.pt is missing)"
    ]
    pointed = latest(tmp_path)
    assert pointed is not None
    assert pointed.step == 4
    resumption(config(tmp_path), repair=True)
    pointed = latest(tmp_path)
    assert pointed is not None
    assert pointed.step == 2


def test_nothing_whole_is_a_problem_of_the_plan(tmp_path: Path) -> None:
    (checkpoint(tmp_path, 2) / "data.pt").unlink()
    assert "put one back, or begin anew under another run.name" in str(resumption(config(tmp_path)).problem)
    assert resumption(config(tmp_path, "disable")).problem is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [("global_step_2", None), ("global_step_9", "it is gone"), ("copy", "its name is not global_step_N")],
)
def test_a_given_path_is_looked_at_before_anything_starts(
    tmp_path: Path, name: str, problem: str | None
) -> None:
    checkpoint(tmp_path, 2)
    checkpoint(tmp_path, 3).rename(tmp_path / "copy")
    found = resumption(config(tmp_path, "resume_path", tmp_path / name))
    if problem is None:
        assert found.checkpoint is not None
        assert found.checkpoint.step == 2
    else:
        assert problem in str(found.problem)
