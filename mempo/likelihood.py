"""Answer log-probs and a threshold → P(answer | memory) and P(answer | reference).

Source: MemPO (arXiv 2603.00680), thresholded answer likelihood; `independent` is the published rule, the others keep
both sides on the same tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

RULES = ("either", "independent", "both", "all")


@dataclass(frozen=True)
class PairProbability:
    """Mean-token probabilities in [0, 1] and how many answer tokens were kept (of the union, for `independent`)."""

    p_memory: float
    p_reference: float
    kept: int


def pair_probability(
    memory: torch.Tensor, reference: torch.Tensor, rule: str, threshold_p: float = 0.5
) -> PairProbability | None:
    """P on both sides under a likelihood rule.

    Args:
        memory, reference: [A] log-probs (natural log) of the same A answer tokens in either context.
        rule: `either`: kept if one side is above the threshold; `both`: if both are; `all`: no threshold;
            `independent`: each side keeps its own tokens, sum / (count + 1e-8), an empty side is exp(0) = 1.
        threshold_p: a probability; the comparison is strict, log p > log threshold_p.

    Returns:
        None if no token is kept (not for `independent`): the memory carries no signal.
    """
    if memory.shape != reference.shape or memory.ndim != 1 or not len(memory):
        raise ValueError(
            f"likelihood: shapes {tuple(memory.shape)} and {tuple(reference.shape)} must be equal [A]"
        )
    memory, reference = memory.double(), reference.double()
    above_memory, above_reference = memory > math.log(threshold_p), reference > math.log(threshold_p)
    if rule == "independent":
        kept = int((above_memory | above_reference).sum())
        return PairProbability(_published(memory, above_memory), _published(reference, above_reference), kept)
    if rule == "either":
        keep = above_memory | above_reference
    elif rule == "both":
        keep = above_memory & above_reference
    elif rule == "all":
        keep = torch.ones_like(above_memory)
    else:
        raise ValueError(f"memory.likelihood is {rule!r}; known are {', '.join(RULES)}")
    if not keep.any():
        return None
    return PairProbability(_mean_p(memory[keep]), _mean_p(reference[keep]), int(keep.sum()))


def _mean_p(logprobs: torch.Tensor) -> float:
    return float(logprobs.mean().exp())


def _published(logprobs: torch.Tensor, keep: torch.Tensor) -> float:
    return float((logprobs[keep].sum() / (keep.sum() + 1e-8)).exp())
