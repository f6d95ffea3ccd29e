"""Writes `sft.parquet` for a data folder: of a world, or of records with gold paragraphs (HotpotQA and its kin)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mempo.trajectory import ContextMode
from tools.sft.demonstration import Demonstration
from tools.sft.paragraph_oracle import paragraph_demonstrations
from tools.sft.rows import write_sft_rows
from tools.sft.world_oracle import OracleSettings, world_demonstrations


@dataclass(frozen=True)
class OracleOutput:
    """What the cold start's rows look like.

    Attributes:
        contexts: context modes, and which demonstrations are written in each: 1 all of them, 3 every third. A model
            that is trained on both modes can be used in both.
        prompt: system prompt (`mempo.prompts`); has to be the one of RL.
        world: the demonstrations on worlds of their own, used for world folders only.
    """

    contexts: dict[str, int] = field(default_factory=lambda: {"window:1": 1, "history": 3})
    prompt: str = "brief"
    world: OracleSettings = field(default_factory=OracleSettings)


def write_oracle(data_dir: Path, out: Path, settings: OracleOutput, seed: int) -> int:
    """Writes the rows of every demonstration in every context mode and returns how many rows.

    Raises:
        ValueError: the folder is neither a world nor has `supporting.jsonl`.
    """
    modes = [(ContextMode.parse(text), every) for text, every in settings.contexts.items()]
    demonstrations = enumerate(_demonstrations(data_dir, settings, seed))
    return write_sft_rows(
        out,
        (
            row
            for index, demo in demonstrations
            for mode, every in modes
            if index % every == 0
            for row in demo.rows(mode, settings.prompt)
        ),
    )


def _demonstrations(data_dir: Path, settings: OracleOutput, seed: int) -> Iterator[Demonstration]:
    supporting, manifest = data_dir / "supporting.jsonl", data_dir / "manifest.json"
    if supporting.is_file():
        return paragraph_demonstrations(data_dir, seed)
    if manifest.is_file() and json.loads(manifest.read_text(encoding="utf-8")).get("dataset") == "world":
        return world_demonstrations(settings.world, seed)
    raise ValueError(
        f"{data_dir}: neither a world (`mempo world build`) nor a folder with supporting.jsonl (`mempo data hotpotqa`)"
    )
