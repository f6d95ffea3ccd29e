"""The generated world as data and as the source of the tiny model of the CPU recipe."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from tools.run.errors import RunError
from tools.run.stages import Say

if TYPE_CHECKING:
    from tools.world.reading import ReadingSettings
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


def build_reading(config: DictConfig, folder: Path, say: Say) -> None:
    """Writes the documents of `task.*` into an empty folder. Raises RunError."""
    from tools.world.reading import build_reading_world

    try:
        build_reading_world(folder, _reading_settings(config, int(config.task.seed)))
    except ValueError as error:
        raise RunError(f"reading: {error}") from error
    say(f"generated documents into {folder}")


def build_reader(config: DictConfig, folder: Path, say: Say) -> None:
    """Trains the tiny reader from scratch on what an oracle writes in its place; the result is `folder/model`.

    Raises:
        RunError: the agent's caps do not fit the demonstrations, or training diverged.
    """
    import torch
    from omegaconf import OmegaConf

    from tools.sft.cold_start import train_examples
    from tools.sft.reading_oracle import reading_examples
    from tools.sft.train import TrainSettings
    from tools.world.reading import write_reading_model

    settings, seed, sft = _reading_settings(config, int(config.seed)), int(config.seed), config.run.sft
    given = {key: int(sft[key]) for key in ("steps", "drill_steps") if sft[key] is not None}
    agent: dict[str, Any] = OmegaConf.to_container(config.agent, resolve=True)  # type: ignore[assignment]
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0))))  # as for the world's model
    try:
        write_reading_model(folder / "untrained", settings)
        train_examples(
            lambda tokens: list(
                reading_examples(
                    tokens,
                    agent,
                    settings,
                    demonstrations=int(sft.demonstrations),
                    forgetful=float(sft.forgetful),
                    seed=seed,
                )
            ),
            folder / "untrained",
            folder / "model",
            replace(TrainSettings(), **given),
            seed,
            _teller(say),
        )
    except ValueError as error:
        raise RunError(f"cold start: {error}") from error
    finally:
        torch.set_num_threads(1)


def _reading_settings(config: DictConfig, seed: int) -> ReadingSettings:
    from tools.world.reading import ReadingSettings

    task, settings = (
        config.task,
        ReadingSettings(seed=seed, chunk_tokens=int(config.agent.max_observation_tokens)),
    )
    return replace(
        settings,
        chunks=tuple(int(count) for count in task.get("chunks") or settings.chunks),
        train=int(task.get("train") or settings.train),
        validation=int(task.get("validation") or settings.validation),
    )


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
