"""Training from a resolved config: `train(config)`, or `python -m verl_patches.main` with Hydra's command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import hydra
from omegaconf import DictConfig

from verl_patches.disk import disk_full
from verl_patches.failures import RunFailed
from verl_patches.wiring import wire, wire_environment, wire_ray

START_ATTEMPTS = 3
STOPPED = "training stopped: "  # begins the last words of a run that ended for a reason that we can name


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
        _with_patience(lambda: run_ppo(config, task_runner_class=task_runner()))
    except Exception as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, RunFailed):
            raise RunFailed(str(cause)) from error
        full = disk_full(error, Path(config.trainer.default_local_dir))
        if full:
            raise RunFailed(full) from error
        raise
    finally:
        if not joined:
            ray.shutdown()


def _with_patience(start: Callable[[], None]) -> None:
    """Starts again, twice at most, if Ray's own processes did not come up: it gives them 30 s, on a busy machine too few.

    Nothing of the run has happened by then.
    """
    import ray

    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            return start()
        except Exception as error:
            if (
                ray.is_initialized()
                or "timed out during startup" not in str(error)
                or attempt == START_ATTEMPTS
            ):
                raise
            print(
                f"Ray did not start in time, attempt {attempt + 1} of {START_ATTEMPTS}",
                file=sys.stderr,
                flush=True,
            )
            ray.shutdown()
    return None


@hydra.main(config_path=None, version_base=None)
def _main(config: DictConfig) -> None:
    try:
        train(config)
    except RunFailed as failure:
        end_process(failure)


def end_process(failure: RunFailed) -> NoReturn:
    """Says why the run stopped and ends this process with 1."""
    try:
        print(f"{STOPPED}{failure}", file=sys.stderr, flush=True)
    finally:  # a disk that is full may not take the line either
        os._exit(1)  # a hung weight sync leaves threads behind that would keep the process


if __name__ == "__main__":
    _main()
