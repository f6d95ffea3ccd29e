"""Whether a folder still is the release that was made, offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.release.agent_settings import agent_problems
from tools.release.card import CARD, card_problems
from tools.release.errors import ReleaseError
from tools.release.manifest import file_problems, read_manifest
from tools.release.model_folder import model_problems


def release_problems(folder: Path) -> list[str]:
    """What is wrong with a release, one line each, naming the file; nothing if all is well.

    Every file is compared with release.json; if all are as released, they are also read: weights against config, dtype,
    tied tensors, tokenizer with chat template, the agent's settings, the card's metadata.
    """
    if not folder.is_dir():
        return [f"{folder} is no folder"]
    try:
        manifest = read_manifest(folder)
    except ReleaseError as error:
        return [str(error)]
    return file_problems(folder, manifest) or content_problems(folder, manifest)


def content_problems(folder: Path, facts: Mapping[str, Any]) -> list[str]:
    """What is wrong inside of the files of a release.

    Args:
        facts: `kind`, and `dtype` of a model's weights.
    """
    problems = card_problems(folder / CARD)
    if facts["kind"] == "model":
        problems += model_problems(folder, str(facts["dtype"])) + agent_problems(folder)
    return problems
