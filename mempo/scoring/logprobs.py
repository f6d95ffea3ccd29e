"""From logits to log-probs of given tokens, in fp32, a few rows at a time."""

from __future__ import annotations

import torch

# Rows of [rows, vocabulary] in fp32 that are held at once.
LOGIT_ROWS = 512


def answer_logprobs(logits: torch.Tensor, places: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """[A] fp32 log p of targets[i] under the softmax of logits[places[i]]; logits [R, vocabulary]."""
    parts = []
    for rows, tokens in zip(places.split(LOGIT_ROWS), targets.split(LOGIT_ROWS), strict=True):
        chosen = logits[rows].float()
        parts.append(chosen.gather(1, tokens[:, None])[:, 0] - chosen.logsumexp(1))
    return torch.cat(parts)
