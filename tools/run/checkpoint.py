"""verl's checkpoint folder: which step it is at, and the Hugging Face model inside."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tools.run.errors import RunError

TRACKER = "latest_checkpointed_iteration.txt"
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
    """The checkpoint that verl would resume from; None if there is none."""
    try:
        step = int((folder / TRACKER).read_text(encoding="utf-8").strip())
    except (FileNotFoundError, ValueError):
        return None
    place = folder / f"global_step_{step}"
    return Checkpoint(step, place) if place.is_dir() else None


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
