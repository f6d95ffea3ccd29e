"""Log-probs of answer tokens from packed trees: the model runs once over each, logits only where an answer is predicted."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mempo.probe import Probe
from mempo.scoring.attention import TreeAttention, attending_as_trees
from mempo.scoring.logprobs import answer_logprobs
from mempo.scoring.mode import evaluating
from mempo.scoring.packing import schedule
from mempo.scoring.support import tree_refusal
from mempo.scoring.tree import Tree


class TreeScorer:
    """Scores with a model of this process; see `mempo.scoring.base.Scorer`.

    Args:
        model: a Hugging Face causal LM, on one device.
        budget: tokens of one forward.

    Raises:
        ValueError: for a model that attends otherwise than the tree.
    """

    def __init__(self, model: torch.nn.Module, budget: int) -> None:
        refused = tree_refusal(model.config)
        if refused:
            raise ValueError(f"the tree cannot score {type(model).__name__}: {refused.reason}")
        self._model, self._budget = model, budget

    def answer_logprobs(self, probes: Sequence[Sequence[Probe]]) -> list[list[torch.Tensor]]:
        """See `mempo.scoring.base.Scorer`."""
        plan = schedule(probes, self._budget)
        device = next(self._model.parameters()).device
        return plan.collect(probes, [score_trees(self._model, trees, device) for trees in plan.trees])


def score_trees(
    model: torch.nn.Module, trees: Sequence[Tree], device: torch.device | str
) -> list[torch.Tensor]:
    """[A] fp32 log-probs per tree, on the CPU, at temperature 1. Leaves no trace in the model.

    Args:
        model: the outermost module, so that FSDP's hooks run; a Hugging Face causal LM that takes `logits_to_keep`.
    """
    with evaluating(model), attending_as_trees(model):
        return [_score(model, tree, torch.device(device)) for tree in trees]


def _score(model: torch.nn.Module, tree: Tree, device: torch.device) -> torch.Tensor:
    predictors, places = torch.unique(torch.from_numpy(tree.predictors), return_inverse=True)
    logits = model(
        input_ids=torch.from_numpy(tree.token_ids)[None].to(device),
        position_ids=torch.from_numpy(tree.position_ids)[None].to(device),
        logits_to_keep=predictors.to(device),
        use_cache=False,
        tree=TreeAttention(tree.segments, device),
    ).logits[0]
    return answer_logprobs(logits, places.to(device), torch.from_numpy(tree.targets).to(device)).cpu()
