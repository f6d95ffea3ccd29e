"""What a world folder is made from."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.world.model import ModelShape


def _counts() -> dict[str, int]:
    return {"person": 300, "film": 200, "novel": 150, "town": 120, "company": 130}


def _mixture() -> dict[str, float]:
    return {"1": 1.0, "2": 2.0, "3": 1.0, "1+1": 1.0}


@dataclass(frozen=True)
class WorldSettings:
    """Size of the world and of its question sets.

    Attributes:
        seed: draws the world, its questions and the model's first weights.
        counts: pages per kind.
        mixture: hops of each objective (`"2"`, `"1+1"`) and the weight of such questions.
        train, validation: questions per split; no question is in both.
        shape: sizes of the model.
    """

    seed: int = 0
    counts: dict[str, int] = field(default_factory=_counts)
    mixture: dict[str, float] = field(default_factory=_mixture)
    train: int = 3000
    validation: int = 600
    shape: ModelShape = field(default_factory=ModelShape)
