"""Scoring memories inside verl's training workers: each rank runs its packed trees through the actor's own module."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from verl.single_controller.base.decorator import (
    Dispatch,
    collect_nd_compute,
    dispatch_nd_compute,
    register,
)
from verl.utils.device import get_device_id, get_device_name

from mempo.scoring.scorer import score_trees
from mempo.scoring.support import Refusal, tree_refusal
from mempo.scoring.tree import Tree


def data_parallel_ranks(worker_group: Any, mesh: str = "actor") -> list[int]:
    """worker → the rank among those between which verl splits a batch."""
    if mesh not in worker_group._dispatch_info:
        worker_group._dispatch_info[mesh] = worker_group._query_dispatch_info(mesh)
    return list(worker_group._dispatch_info[mesh])


def data_parallel_size(worker_group: Any, mesh: str = "actor") -> int:
    """Ranks among which verl splits a batch for this worker group."""
    return max(data_parallel_ranks(worker_group, mesh)) + 1


def _dispatch(mesh: str, worker_group: Any, *per_rank: Any) -> Any:
    # verl's own dispatch of this kind takes batches only, and splits them evenly.
    size = data_parallel_size(worker_group, mesh)
    return dispatch_nd_compute(data_parallel_ranks(worker_group, mesh), size, worker_group, *per_rank)


def _collect(mesh: str, worker_group: Any, output: Any) -> Any:
    if mesh not in worker_group._collect_info:
        worker_group._collect_info[mesh] = worker_group._query_collect_info(mesh)
    return collect_nd_compute(worker_group._collect_info[mesh], worker_group, output)


# A list with one entry per data-parallel rank in, a list of their answers out.
PER_RANK = {"dispatch_fn": partial(_dispatch, "actor"), "collect_fn": partial(_collect, "actor")}


class MemoryWorker:
    """Mixin for verl's `ActorRolloutRefWorker` and its subclasses."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def tree_refusal(self) -> Refusal | None:
        """Why the tree cannot score with this worker's actor; None if it can."""
        return engine_refusal(self.actor.engine)  # type: ignore[attr-defined]

    @register(dispatch_mode=PER_RANK)
    def score_memories(self, trees: list[Tree]) -> list[torch.Tensor]:
        """[A] fp32 log-probs per tree. Every rank must be given the same number of trees."""
        engine = self.actor.engine  # type: ignore[attr-defined]
        with engine.eval_mode(), _autocast(engine):
            return score_trees(engine.module, trees, _device())


def engine_refusal(engine: Any) -> Refusal | None:
    """Why the tree cannot run in a verl engine; None if it can."""
    module = getattr(engine, "module", None)
    config = getattr(module, "config", None)
    if not isinstance(module, torch.nn.Module) or config is None:
        return Refusal("engine", f"{type(engine).__name__} does not hold a Hugging Face model")
    if getattr(engine, "ulysses_sequence_parallel_size", 1) > 1:
        return Refusal("sequence_parallel", "the actor splits sequences over ranks (Ulysses)")
    if getattr(engine.model_config, "use_fused_kernels", False):
        return Refusal("fused_kernels", "fused kernels replace the forward that selects logits")
    return tree_refusal(config)


def _device() -> str:
    name = get_device_name()
    return name if name == "cpu" else f"{name}:{get_device_id()}"


def _autocast(engine: Any) -> AbstractContextManager[Any]:
    """The rule of the engine's own forward."""
    dtype = getattr(engine, "_autocast_dtype", torch.bfloat16)
    return nullcontext() if dtype == torch.float32 else torch.autocast(get_device_name(), dtype=dtype)
