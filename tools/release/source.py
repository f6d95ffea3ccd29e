"""What a release is made from: a saved step of a training run, and the run's own files around it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tools.release.errors import ReleaseError
from tools.run.checkpoint import HF_PARTS, latest
from tools.run.metrics import Step, read_steps
from tools.run.training import RunFolder

STEP = re.compile(r"global_step_(\d+)")


@dataclass(frozen=True)
class Source:
    """A saved step; `folder` is its `global_step_N`."""

    folder: Path
    step: int

    @property
    def actor(self) -> Path:
        """The policy's shards."""
        return self.folder / HF_PARTS[0]

    @property
    def model(self) -> Path:
        """Config and tokenizer, and the weights where the run exported them."""
        return self.folder.joinpath(*HF_PARTS)

    @property
    def run(self) -> RunFolder:
        """The run that saved it."""
        return RunFolder(self.folder.parent.parent)

    @cached_property
    def config(self) -> DictConfig:
        """The config that verl was given.

        Raises:
            ReleaseError: it is missing, or lacks the keys of ours.
        """
        path = self.run.config
        try:
            config = OmegaConf.load(path)
        except (OSError, ValueError) as error:
            raise ReleaseError(
                f"{path} cannot be read ({error}): a release takes the agent's settings from its run, so give a "
                "checkpoint inside of its run's folder"
            ) from error
        missing = [key for key in ("agent", "memory", "search", "actor_rollout_ref") if key not in config]
        if not isinstance(config, DictConfig) or missing:
            raise ReleaseError(f"{path}: {', '.join(missing)} missing; it is not the config of a run of ours")
        return config

    @cached_property
    def steps(self) -> list[Step]:
        """The metrics of training, up to this step."""
        return [step for step in read_steps(self.run.metrics) if step["step"] <= self.step]

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions, commit and hardware of the run; empty if it wrote none."""
        return read_json(self.run.path / "environment.json") or {}


def find_source(path: Path) -> Source:
    """The step that a path names: `global_step_N`, its `actor` folder, or a run or its `checkpoints` (the latest step).

    Raises:
        ReleaseError: there is no checkpoint.
    """
    place = path.resolve()
    if place.name == HF_PARTS[-1]:
        place = place.parent
    if place.name == HF_PARTS[0]:
        place = place.parent
    named = STEP.fullmatch(place.name)
    if not named:
        found = latest(place) or latest(RunFolder(place).checkpoints)
        if found is None:
            raise ReleaseError(
                f"{path} is no checkpoint: give .../checkpoints/global_step_N, or the run's folder"
            )
        place, step = found.folder, found.step
    else:
        step = int(named[1])
    source = Source(place, step)
    if not source.actor.is_dir():
        raise ReleaseError(f"{source.actor} does not exist: give a global_step_N whose model was saved")
    return source


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object, or None if there is no such file.

    Raises:
        ReleaseError: the file holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ReleaseError(f"{path} is not readable JSON: {error}") from error
    if not isinstance(content, dict):
        raise ReleaseError(f"{path} holds no object")
    return content
