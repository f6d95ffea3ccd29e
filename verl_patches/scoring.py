"""Scorers over verl's actor workers: the log-probs of probes, with the policy's own weights."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from mempo.probe import Probe
from mempo.scoring.packing import schedule
from mempo.scoring.support import Refusal
from verl_patches import names
from verl_patches.memory_worker import data_parallel_size

_log = logging.getLogger(__name__)


class ReferenceScorer:
    """One sequence per probe through the actor's log-prob pass: plain, and what a faster scorer must equal.

    Args:
        worker_group: verl's `actor_rollout_wg`.
        max_tokens: token budget of one micro-batch on one rank.
    """

    def __init__(self, worker_group: Any, max_tokens: int) -> None:
        self._workers, self._max_tokens = worker_group, max_tokens

    @property
    def longest_probe(self) -> int:
        """verl's dynamic batches hold no sequence over their budget."""
        return self._max_tokens

    def answer_logprobs(self, probes: Sequence[Sequence[Probe]]) -> list[list[torch.Tensor]]:
        """See `mempo.scoring.base.Scorer`."""
        # Rollouts of one question often share a memory or a history word for word: each sequence is scored once.
        distinct: dict[tuple[tuple[int, ...], tuple[int, ...]], Probe] = {}
        for trajectory in probes:
            for probe in trajectory:
                distinct.setdefault(_sequence(probe), probe)
        if not distinct:
            return [[] for _ in probes]
        shortest = min(distinct.values(), key=len)
        padded = [*distinct.values(), *[shortest] * (-len(distinct) % data_parallel_size(self._workers))]
        scored = self._workers.compute_log_prob(probe_batch(padded, self._max_tokens))["log_probs"]
        row_of = dict(zip(distinct, scored.unbind(), strict=False))
        return [
            [answer_part(row_of[_sequence(probe)], probe) for probe in trajectory] for trajectory in probes
        ]


class TreeScorer:
    """What probes share is computed once: packed trees, dealt to the data-parallel ranks.

    Args:
        worker_group: verl's `actor_rollout_wg`, of workers with the `MemoryWorker` mixin.
        max_tokens: token budget of one forward on one rank.
    """

    def __init__(self, worker_group: Any, max_tokens: int) -> None:
        self._workers, self._max_tokens = worker_group, max_tokens

    @property
    def longest_probe(self) -> int:
        """No limit but the model's: what is over the budget runs alone."""
        return sys.maxsize

    def answer_logprobs(self, probes: Sequence[Sequence[Probe]]) -> list[list[torch.Tensor]]:
        """See `mempo.scoring.base.Scorer`."""
        plan = schedule(probes, self._max_tokens, data_parallel_size(self._workers))
        if not plan.tokens:
            return [[] for _ in probes]
        return plan.collect(probes, self._workers.score_memories(plan.trees))


def _sequence(probe: Probe) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(probe.context_ids), tuple(probe.probe_ids)


def probe_batch(probes: Sequence[Probe], max_tokens: int) -> TensorDict:
    """Probes as the plain batch that verl's log-prob pass takes: the context is the prompt, the probe the response."""

    def nested(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    prompts = [torch.tensor(probe.context_ids, dtype=torch.int64) for probe in probes]
    responses = [torch.tensor(probe.probe_ids, dtype=torch.int64) for probe in probes]
    whole = [torch.cat(pair) for pair in zip(prompts, responses, strict=True)]
    batch = TensorDict(
        {
            "prompts": nested(prompts),
            "responses": nested(responses),
            "input_ids": nested(whole),
            "position_ids": nested([torch.arange(len(ids)) for ids in whole]),
            "response_mask": nested([torch.ones_like(ids) for ids in responses]),
            "loss_mask": nested([torch.ones_like(ids) for ids in responses]),
        },
        batch_size=len(probes),
    )
    tu.assign_non_tensor(
        batch,
        calculate_entropy=False,
        compute_loss=False,
        temperature=1.0,
        use_dynamic_bsz=True,
        max_token_len_per_gpu=max_tokens,
    )
    return batch


def answer_part(logprobs: torch.Tensor, probe: Probe) -> torch.Tensor:
    """[A] log-probs of the answer tokens from verl's [context + probe], in which entry i is about token i + 1."""
    start = len(probe.context_ids)
    ours = logprobs[start - 1 : start - 1 + len(probe.probe_ids)]
    return ours[torch.tensor(probe.answer_mask, dtype=torch.bool, device=ours.device)].float().cpu()


SCORERS: dict[str, type[TreeScorer] | type[ReferenceScorer]] = dict(
    zip(names.SCORERS, (TreeScorer, ReferenceScorer), strict=True)
)


def build_scorer(
    name: str, worker_group: Any, max_tokens: int
) -> tuple[TreeScorer | ReferenceScorer, Refusal | None]:
    """The scorer that `memory.scorer` names; the reference, and why, where the actor cannot run the tree.

    Args:
        max_tokens: token budget of one forward on one rank.
    """
    if name not in SCORERS:
        raise ValueError(f"memory.scorer is {name!r}; known are {', '.join(SCORERS)}")
    if name == "tree":
        refused = next(filter(None, worker_group.tree_refusal()), None)
        if refused is not None:
            _log.warning("memory.scorer: the reference scores instead of the tree: %s", refused.reason)
            return ReferenceScorer(worker_group, max_tokens), refused
    return SCORERS[name](worker_group, max_tokens), None
