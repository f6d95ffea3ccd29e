"""Everything that decides a cold start."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.sft.oracle import OracleOutput
from tools.sft.train import TrainSettings
from tools.sft.world_oracle import Habits, OracleSettings


def world_oracle() -> OracleOutput:
    """The default cold start on a world: an imperfect demonstrator, so that RL has habits to unlearn."""
    return OracleOutput(
        world=OracleSettings(
            demonstrations=5000,
            mixture={"1": 1.0, "2": 2.0, "3": 1.0, "1+1": 1.0},
            habits=Habits(hasty=0.3, hasty_long=0.65, forgetful=0.65),
        )
    )


@dataclass(frozen=True)
class SftSettings:
    """Rows and optimisation of a cold start."""

    oracle: OracleOutput = field(default_factory=world_oracle)
    train: TrainSettings = field(default_factory=TrainSettings)
