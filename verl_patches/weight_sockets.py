"""Names for the sockets over which verl hands weights to vLLM."""

from __future__ import annotations

import os
from functools import wraps
from types import ModuleType
from typing import Any

from verl_patches.wiring import RUN_NAME

SOCKETS = "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer"
VERLS = "/tmp/rl-colocate-zmq-"


def name_sockets(module: ModuleType) -> None:
    """Puts the run's random name into both ends' socket paths.

    Forced by: verl 0.9.1 names them after Ray's job id, which is 01000000 in every cluster of one's own. Two runs on a
    machine then remove each other's socket and load each other's weights, and one that another user's run has left in
    /tmp cannot be replaced. Goes when: verl's names differ between clusters.
    """
    for end in (module.BucketedWeightSender, module.BucketedWeightReceiver):
        end.__init__ = _named(end.__init__)


def own_name(handle: str) -> str:
    """The path with the run's name in it, where this process belongs to a run."""
    run = os.environ.get(RUN_NAME)
    return handle.replace(VERLS, f"{VERLS}{run}-", 1) if run else handle


def _named(original: Any) -> Any:
    @wraps(original)
    def __init__(self: Any, zmq_handle: str, *arguments: Any, **rest: Any) -> None:
        original(self, own_name(zmq_handle), *arguments, **rest)

    return __init__
