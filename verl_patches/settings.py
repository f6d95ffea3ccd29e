"""The `memory.*` config as the settings of mempo's parts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from omegaconf import DictConfig

from mempo.credit import CreditSettings, row_share
from mempo.memory_scores import MemorySettings


@dataclass(frozen=True)
class MemoryOptions:
    """Everything under `memory.*` that the trainer reads more than once."""

    weight: float
    row_credit: str
    equal_turns: bool
    credit: CreditSettings
    _scoring: MemorySettings

    @classmethod
    def from_config(cls, config: DictConfig) -> MemoryOptions:
        """Raises ValueError for an unknown value, naming its key."""
        memory = config.memory
        row_share(str(memory.row_credit), 1)
        return cls(
            weight=float(memory.weight),
            row_credit=str(memory.row_credit),
            equal_turns=bool(memory.get("equal_turns")),
            credit=CreditSettings(baseline=str(memory.baseline), gate=str(memory.gate)),
            _scoring=MemorySettings(
                likelihood=str(memory.likelihood),
                threshold_p=float(memory.threshold_p),
                aliases=str(memory.aliases),
                reference=str(memory.reference),
                keep_leading_newline=bool(memory.keep_leading_newline),
            ),
        )

    def scoring(self, max_positions: int) -> MemorySettings:
        """The scoring settings; a probe longer than `max_positions` tokens is `too_long`."""
        return replace(self._scoring, max_positions=max_positions)
