"""The generation config of a checkpoint, as transformers is willing to write it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tools.release.errors import ReleaseError

NAME = "generation_config.json"
_REFUSED = re.compile(r"^- `(\w+)`", re.MULTILINE)


def read_generation_config(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The config of a Hugging Face folder without what transformers refuses, and what was left out, by name.

    Transformers reads a temperature without sampling, ignores it in `generate`, and refuses to write it. Leaving it out
    changes no token that the model generates.

    Returns:
        None and {} where the folder has none.

    Raises:
        ReleaseError: the file cannot be read, or stays invalid without the refused settings.
    """
    from transformers import GenerationConfig

    path = folder / NAME
    if not path.is_file():
        return None, {}
    try:
        config = GenerationConfig.from_pretrained(folder, local_files_only=True)
        left_out: dict[str, Any] = {}
        for name in _refused(config):
            left_out[name] = getattr(config, name)
            setattr(config, name, None)
        config.validate(strict=True)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ReleaseError(
            f"{path}: {said}; correct the file, or remove it for the model's defaults"
        ) from error
    return config, left_out


def _refused(config: Any) -> list[str]:
    """Settings that do not go together with the others."""
    try:
        config.validate(strict=True)
    except ValueError as error:
        return _REFUSED.findall(str(error))
    return []
