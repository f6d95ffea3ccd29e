"""The generated world as data and as the source of the tiny model of the CPU recipe."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from tools.run.errors import RunError
from tools.run.stages import Say

if TYPE_CHECKING:
    from tools.world.settings import WorldSettings

TOLD_EVERY = 0.1  # of the updates


def build_world(config: DictConfig, folder: Path, say: Say) -> None:
    """Writes the world of `task.*` into an empty folder. Raises RunError."""
    from tools.world.build import build_world as build

    try:
        build(folder, _settings(config, int(config.task.seed)))
    except ValueError as error:
        raise RunError(f"world: {error}") from error
    say(f"generated a world into {folder}")


def build_model(config: DictConfig, folder: Path, say: Say) -> None:
    """Trains the tiny model from scratch on oracle trajectories of worlds of their own; the result is `folder/model`.

    Raises:
        RunError: training diverged.
    """
    import torch

    from tools.sft.cold_start import cold_start
    from tools.sft.settings import SftSettings
    from tools.world.build import build_world as build

    world = folder / "world"
    settings = SftSettings()
    given = {key: config.run.sft[key] for key in ("steps", "drill_steps") if config.run.sft[key] is not None}
    settings = replace(
        settings,
        oracle=replace(
            settings.oracle,
            prompt=str(config.agent.prompt),
            world=replace(settings.oracle.world, topk=int(config.search.topk)),
        ),
        train=replace(settings.train, **{key: int(value) for key, value in given.items()}),
    )
    # This process was told to use one thread, for its children's sake; here it has the machine to itself.
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0))))
    try:
        build(world, _settings(config, int(config.seed)))
        cold_start(world, world / "model", folder / "model", settings, int(config.seed), _teller(say))
    except ValueError as error:
        raise RunError(f"cold start: {error}") from error
    finally:
        torch.set_num_threads(1)


def _settings(config: DictConfig, seed: int) -> WorldSettings:
    from tools.world.settings import WorldSettings

    settings = WorldSettings(seed=seed)
    return replace(
        settings,
        train=int(config.task.get("train") or settings.train),
        validation=int(config.task.get("validation") or settings.validation),
    )


def _teller(say: Say) -> Callable[[int, int, float], None]:
    told = 0

    def report(done: int, total: int, loss: float) -> None:
        nonlocal told
        if done >= total or done - told >= TOLD_EVERY * total:
            told = done
            say(f"cold start: update {done} of {total}, loss {loss:.3f}")

    return report
