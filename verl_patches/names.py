"""Names that config keys take and that are known here, without loading what stands behind them."""

from __future__ import annotations

SCORERS = ("tree", "reference")  # `memory.scorer`; `verl_patches.scoring` says what each is
TRAINER_MODES = ("sync", "colocate_async", "separate_async")  # verl's, each with a trainer of ours


def loggers() -> list[str]:
    """What `trainer.logger` may list, as verl's tracking has it."""
    from verl.utils.tracking import Tracking

    return list(Tracking.supported_backend)
