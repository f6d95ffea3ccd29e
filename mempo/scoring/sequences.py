"""The plain way: one sequence per probe, in batches of similar length. What the tree must equal, and is measured against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from mempo.probe import Probe
from mempo.scoring.logprobs import answer_logprobs
from mempo.scoring.mode import evaluating


class SequenceScorer:
    """Scores with a model of this process; see `mempo.scoring.base.Scorer`.

    Args:
        model: a Hugging Face causal LM, on one device.
        budget: tokens of one forward, padding included; a longer sequence runs alone.
    """

    def __init__(self, model: Any, budget: int) -> None:
        self._model, self._budget = model, budget

    def answer_logprobs(self, probes: Sequence[Sequence[Probe]]) -> list[list[torch.Tensor]]:
        """See `mempo.scoring.base.Scorer`."""
        every = [probe for trajectory in probes for probe in trajectory]
        found: dict[int, torch.Tensor] = {}
        with evaluating(self._model):
            for batch in batches(every, self._budget):
                found |= dict(zip(batch, self._score([every[index] for index in batch]), strict=True))
        ordered = iter(found[index] for index in range(len(every)))
        return [[next(ordered) for _ in trajectory] for trajectory in probes]

    def _score(self, probes: Sequence[Probe]) -> Sequence[torch.Tensor]:
        device = next(self._model.parameters()).device
        ids = torch.zeros(len(probes), max(map(len, probes)), dtype=torch.int64)
        rows, columns, counts = [], [], []
        for row, probe in enumerate(probes):
            ids[row, : len(probe)] = torch.tensor(probe.context_ids + probe.probe_ids)
            asked = len(probe.context_ids) + torch.tensor(probe.answer_mask).nonzero()[:, 0]
            rows.append(torch.full_like(asked, row))
            columns.append(asked)
            counts.append(len(asked))
        at, column = torch.cat(rows), torch.cat(columns)
        # Padding is on the right, where a causal model does not look: no mask is needed.
        hidden = self._model.base_model(input_ids=ids.to(device), use_cache=False).last_hidden_state
        logits = self._model.get_output_embeddings()(hidden[at.to(device), column.to(device) - 1])
        places = torch.arange(len(at), device=device)
        return answer_logprobs(logits, places, ids[at, column].to(device)).cpu().split(counts)


def batches(probes: Sequence[Probe], budget: int) -> Iterator[list[int]]:
    """Indices of probes in batches of at most `budget` tokens after padding, sorted by length."""
    batch: list[int] = []
    for index in sorted(range(len(probes)), key=lambda index: -len(probes[index])):
        if batch and len(probes[batch[0]]) * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
