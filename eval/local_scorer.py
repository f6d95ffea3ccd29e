"""A model folder as a scorer of memories, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from eval.errors import EvalError
from mempo.agents.base import RolloutError
from mempo.probe import Probe
from mempo.scoring.base import Scorer
from mempo.scoring.scorer import TreeScorer
from mempo.scoring.sequences import SequenceScorer
from mempo.scoring.support import tree_refusal

# Tokens of one forward. On CPU small forwards stay in the cache.
BUDGET = {"cpu": 4096, "cuda": 32768}


class LocalScorer:
    """Packed trees (`mempo.scoring.scorer`) where the model attends as they do, else one sequence per probe.

    Args:
        device: `cpu` or `cuda`. On CPU the weights are fp32, as in training there; on a GPU they keep their type.

    Raises:
        EvalError: if the folder holds no model that can be loaded.
    """

    def __init__(self, folder: Path, device: str, console: Console) -> None:
        from transformers import AutoModelForCausalLM

        try:
            model = AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.float32 if device == "cpu" else "auto", attn_implementation="sdpa"
            )
        except (OSError, ValueError, KeyError) as error:
            raise EvalError(f"{folder} cannot be loaded as a causal language model: {error}") from error
        self._scorer = choose_scorer(model.to(device).eval(), BUDGET[device], console)

    def answer_logprobs(self, probes: Sequence[Sequence[Probe]]) -> list[list[torch.Tensor] | RolloutError]:
        """One tensor per probe ([A], natural log); a model of this process does not fail for one trajectory alone."""
        return [*self._scorer.answer_logprobs(probes)]


def choose_scorer(model: torch.nn.Module, budget: int, console: Console) -> Scorer:
    """The tree, or, with its reason told, one sequence per probe."""
    refused = tree_refusal(model.config)
    if refused is None:
        return TreeScorer(model, budget)
    console.print(f"memories are scored one sequence per probe: {refused.reason}", highlight=False)
    return SequenceScorer(model, budget)
