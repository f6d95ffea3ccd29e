"""What the training workers do beyond verl's: they count the rows that went through the actor's loss, and a weight sync
that the rollout engine does not take ends with the engine's own error.

A mixin over whatever class a role got (separate_async installs another than the colocated modes).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import ray
import torch
import zmq
from verl.single_controller.base.decorator import Dispatch, register
from verl.utils.device import get_device_name

from verl_patches.memory_worker import MemoryWorker
from verl_patches.ray_classes import written_class

ROWS_METRIC = "mempo_rows"


class MempoWorker:
    """Mixin for verl's `ActorRolloutRefWorker` and its subclasses."""

    weight_sync_deadline_s: float = 600.0

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        super().init_model()  # type: ignore[misc]
        share_cores()
        if getattr(self, "actor", None) is not None:
            self.loss_fn = partial(counted_loss, loss_fn=self.loss_fn)  # type: ignore[has-type]
            self.actor.set_loss_fn(self.loss_fn)  # type: ignore[attr-defined]
        if getattr(self, "rollout", None) is not None:
            self._engine_calls = EngineCalls(self.rollout)  # type: ignore[attr-defined]

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    async def update_weights(self, global_steps: int | None = None, mode: str = "auto") -> Any:
        try:
            with receive_deadline(self.weight_sync_deadline_s):
                return await super().update_weights(global_steps=global_steps, mode=mode)  # type: ignore[misc]
        except zmq.Again as error:
            cause = self._engine_calls.cause() or f"no answer in {self.weight_sync_deadline_s:g} s"
            raise RuntimeError(f"the rollout engine did not take the new weights: {cause}") from error


def share_cores() -> None:
    """On a CPU: this process computes on its share of the machine's cores, whatever OMP_NUM_THREADS says.

    The variable is 1 for the many processes of a run. But while a worker trains the others wait, and one core would too.
    """
    if get_device_name() == "cpu":
        ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks))


class EngineCalls:
    """Remembers the last call to the rollout engine that was not waited for.

    verl keeps such a call in a local variable while it sends the weights, and the engine's error in it unread.
    """

    def __init__(self, rollout: Any) -> None:
        self._last: Any = None
        execute = getattr(rollout, "_execute_method", None)
        if execute is None:
            return  # not vLLM

        async def remembering(*args: Any, **kwargs: Any) -> Any:
            result = await execute(*args, **kwargs)
            if kwargs.get("non_block"):
                self._last = result
            return result

        rollout._execute_method = remembering

    def cause(self) -> str | None:
        """The error with which the remembered call ended, if it did."""
        if self._last is None:
            return None
        try:
            ray.get(self._last, timeout=1)
        except ray.exceptions.GetTimeoutError:
            return None
        except Exception as error:
            cause = getattr(error, "cause", None) or error
            return f"{type(cause).__name__}: {cause}"
        return None


@contextmanager
def receive_deadline(seconds: float) -> Iterator[None]:
    """New ZeroMQ sockets of this process give up a receive after `seconds` (verl sends weights over one, blocking)."""
    context: zmq.Context[Any] = zmq.Context.instance()
    before = context.sockopts.get(zmq.RCVTIMEO)
    context.setsockopt(zmq.RCVTIMEO, int(seconds * 1000))
    try:
        yield
    finally:
        if before is None:
            context.sockopts.pop(zmq.RCVTIMEO, None)
        else:
            context.setsockopt(zmq.RCVTIMEO, before)


def counted_loss(*args: Any, loss_fn: Any, **kwargs: Any) -> tuple[torch.Tensor, dict[str, Any]]:
    """verl's loss on one micro-batch, with the number of rows that had a token to train on among its metrics."""
    loss, metrics = loss_fn(*args, **kwargs)
    data = kwargs["data"] if "data" in kwargs else args[1]
    return loss, {**metrics, ROWS_METRIC: trained_rows(data["response_mask"])}


def trained_rows(response_mask: torch.Tensor) -> int:
    """Rows of a [B, L] mask (padded or nested) with at least one 1; padding rows have none."""
    return sum(int(bool(row.any())) for row in response_mask.unbind())


def extended(remote_class: Any, weight_sync_deadline_s: float) -> Any:
    """The Ray class of a role, with the mixins in front."""
    base = written_class(remote_class)
    members = {"weight_sync_deadline_s": weight_sync_deadline_s}
    return ray.remote(type(f"Mempo{base.__name__}", (MempoWorker, MemoryWorker, base), members))
