"""verl's checkpoint folder: which step it is at, and the Hugging Face model inside."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import DictConfig

from tools.run.errors import RunError

HF_PARTS = ("actor", "huggingface")


@dataclass(frozen=True)
class Checkpoint:
    """One saved step."""

    step: int
    folder: Path

    @property
    def model(self) -> Path:
        """The Hugging Face folder with weights and tokenizer."""
        return self.folder.joinpath(*HF_PARTS)


def latest(folder: Path) -> Checkpoint | None:
    """The checkpoint that verl's pointer names; None if there is none."""
    from verl_patches.resume import TRACKER

    try:
        step = int((folder / TRACKER).read_text(encoding="utf-8").strip())
    except (FileNotFoundError, ValueError):
        return None
    place = folder / f"global_step_{step}"
    return Checkpoint(step, place) if place.is_dir() else None


@dataclass(frozen=True)
class Resumption:
    """Where a run goes on (None: from scratch), what a user must hear of it, and what keeps it from going on."""

    checkpoint: Checkpoint | None = None
    notes: list[str] = field(default_factory=list)
    problem: str | None = None


def resumption(config: DictConfig, *, repair: bool = False) -> Resumption:
    """Where training with this config goes on.

    Args:
        repair: make verl's pointer name that checkpoint.
    """
    from verl_patches.failures import RunFailed
    from verl_patches.resume import STEP, flaw, repair_tracker, resume_point

    trainer = config.trainer
    folder, queue = Path(trainer.default_local_dir), trainer.v1.trainer_mode != "sync"
    contents = config.actor_rollout_ref.actor.checkpoint.load_contents
    if trainer.resume_mode == "resume_path":
        if not trainer.resume_from_path:
            return Resumption(
                problem="trainer.resume_mode is resume_path: write in trainer.resume_from_path which folder "
                f"{STEP}N to go on from"
            )
        given = Path(str(trainer.resume_from_path))
        problem = flaw(given, contents, queue=queue)
        number = given.name.removeprefix(STEP)
        if problem or not number.isdecimal():
            problem = problem or f"its name is not {STEP}N"
            return Resumption(
                problem=f"trainer.resume_from_path: {given} cannot be resumed from: {problem}; give another checkpoint"
            )
        return Resumption(Checkpoint(int(number), given))
    if trainer.resume_mode != "auto":
        return Resumption()
    try:
        point = (repair_tracker if repair else resume_point)(folder, contents, queue=queue)
    except RunFailed as error:
        return Resumption(problem=str(error))
    found = None if point.step is None else Checkpoint(point.step, folder / f"{STEP}{point.step}")
    return Resumption(found, point.notes)


def trained_model(folder: Path) -> Checkpoint:
    """The latest checkpoint with a model that can be loaded.

    Raises:
        RunError: there is no checkpoint, or it holds no weights in Hugging Face form.
    """
    found = latest(folder)
    if found is None:
        raise RunError(f"{folder} holds no checkpoint: set trainer.save_freq so that the last step is saved")
    weights = [path for path in found.model.glob("*") if re.search(r"\.(safetensors|bin)$", path.name)]
    if not weights:
        raise RunError(
            f"{found.model} holds no weights: actor_rollout_ref.actor.checkpoint.save_contents must list hf_model"
        )
    return found
