"""What the training workers do beyond verl's: they count the rows that went through the actor's loss.

A mixin over whatever class a role got (separate_async installs another than the colocated modes).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ray
import torch
from verl.single_controller.base.decorator import Dispatch, register

from verl_patches.ray_classes import undecorated

ROWS_METRIC = "mempo_rows"


class CountingWorker:
    """Mixin for verl's `ActorRolloutRefWorker` and its subclasses."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        super().init_model()  # type: ignore[misc]
        actor = getattr(self, "actor", None)
        if actor is not None:
            self.loss_fn = partial(counted_loss, loss_fn=self.loss_fn)  # type: ignore[has-type]
            actor.set_loss_fn(self.loss_fn)


def counted_loss(*args: Any, loss_fn: Any, **kwargs: Any) -> tuple[torch.Tensor, dict[str, Any]]:
    """verl's loss on one micro-batch, with the number of rows that had a token to train on among its metrics."""
    loss, metrics = loss_fn(*args, **kwargs)
    data = kwargs["data"] if "data" in kwargs else args[1]
    return loss, {**metrics, ROWS_METRIC: trained_rows(data["response_mask"])}


def trained_rows(response_mask: torch.Tensor) -> int:
    """Rows of a [B, L] mask (padded or nested) with at least one 1; padding rows have none."""
    return sum(int(bool(row.any())) for row in response_mask.unbind())


def with_counting(remote_class: Any) -> Any:
    """The Ray class of a role, with the mixin in front."""
    base = undecorated(remote_class)
    return ray.remote(type(f"Mempo{base.__name__}", (CountingWorker, base), {}))
