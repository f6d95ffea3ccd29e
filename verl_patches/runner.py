"""verl's task runner with our trainers in place of its own."""

from __future__ import annotations

from typing import Any

import ray
from omegaconf import DictConfig
from verl.trainer.main_ppo import TaskRunnerV1

from verl_patches.ray_classes import actor_base

_VerlRunner: Any = actor_base(TaskRunnerV1)


class _MempoTaskRunner(_VerlRunner):
    """The actor in which the trainer lives."""

    def run(self, config: DictConfig) -> None:
        from verl_patches.trainer import install_trainers

        install_trainers()
        super().run(config)


def task_runner() -> Any:
    """The Ray actor class that `verl.trainer.main_ppo.run_ppo` starts."""
    return ray.remote(_MempoTaskRunner)
