"""Names that are listed apart from what stands behind them are the same names."""

from __future__ import annotations

import pytest

pytest.importorskip("verl", reason="the verl layer needs the cpu or gpu extra")

from verl_patches import names, trainer


def test_every_mode_has_its_trainer() -> None:
    assert tuple(trainer.TRAINERS) == names.TRAINER_MODES
