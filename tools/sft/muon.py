"""Muon for a CPU (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch

_A, _B, _C = 3.4445, -4.775, 2.0315  # Newton-Schulz coefficients of the reference implementation


class Muon(torch.optim.Optimizer):
    """Momentum whose matrices are orthogonalised before they are added; for weight matrices only.

    `torch.optim.Muon` does the same in bfloat16, which is a hundred times slower on a CPU without bf16 instructions;
    this one stays in the parameters' own type and treats matrices of one shape together.
    """

    def __init__(self, params: Iterable[torch.Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update; parameters without a gradient stay as they are."""
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[tuple[torch.Tensor, torch.Tensor]]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(weight)
                state["momentum"].mul_(group["momentum"]).add_(weight.grad)
                nesterov = weight.grad + group["momentum"] * state["momentum"]
                by_shape[tuple(weight.shape)].append((weight, nesterov))
            for (rows, columns), members in by_shape.items():
                updates = orthogonalize(torch.stack([update for _, update in members]))
                rate = group["lr"] * max(1.0, rows / columns) ** 0.5
                for (weight, _), update in zip(members, updates, strict=True):
                    weight.add_(update, alpha=-rate)


def orthogonalize(matrices: torch.Tensor, iterations: int = 5) -> torch.Tensor:
    """The nearest semi-orthogonal matrices, roughly: singular values end between 0.7 and 1.2. Shape [n, rows, columns]."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    return x.mT if tall else x
