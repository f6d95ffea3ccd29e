"""The scorer's interface. A scorer knows contexts, probe ids and masks; not which agent or credit asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from mempo.probe import Probe


class Scorer(Protocol):
    """Scores probes with the policy's own weights at temperature 1."""

    def answer_logprobs(self, probes: Sequence[Sequence[Probe]]) -> list[list[torch.Tensor]]:
        """Log-probs of the masked tokens of every probe.

        Args:
            probes: one sequence per trajectory, so that a scorer may share what a trajectory's contexts share.

        Returns:
            the same shape; each tensor is [A] float, natural log, in the order of the probe's answer tokens.
        """
        ...
