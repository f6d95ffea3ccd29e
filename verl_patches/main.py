"""Training from a resolved config: `train(config)`, or `python -m verl_patches.main` with Hydra's command line."""

from __future__ import annotations

import os
import sys

import hydra
from omegaconf import DictConfig

from verl_patches.failures import RunFailed
from verl_patches.wiring import wire, wire_environment, wire_ray


def train(config: DictConfig) -> None:
    """Runs verl's trainer on `config` to its end, in this process' Ray or in the cluster at `RAY_ADDRESS`.

    Args:
        config: verl's ppo_trainer with our keys, as Hydra composed it.

    Raises:
        RunFailed: when the run stopped for a reason that we can name; the message holds the causes.
    """
    wire(config)
    wire_environment(config)
    # verl picks its platform when it is first imported, so not before the environment says which.
    import ray
    from verl.trainer.main_ppo import run_ppo
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.device import auto_set_device

    from verl_patches.runner import task_runner

    auto_set_device(config)
    validate_config(
        config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config)
    )
    wire_ray(config)
    joined = ray.is_initialized()
    try:
        run_ppo(config, task_runner_class=task_runner())
    except ray.exceptions.RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, RunFailed):
            raise RunFailed(str(cause)) from error
        raise
    finally:
        if not joined:
            ray.shutdown()


@hydra.main(config_path=None, version_base=None)
def _main(config: DictConfig) -> None:
    try:
        train(config)
    except RunFailed as failure:
        print(f"training stopped: {failure}", file=sys.stderr, flush=True)
        os._exit(1)  # a hung weight sync leaves threads behind that would keep the process


if __name__ == "__main__":
    _main()
