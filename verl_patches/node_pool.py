"""One pool of processes per Ray node, which the agent loop workers on it share."""

from __future__ import annotations

from functools import cache
from typing import Any

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mempo.pool_call import failed
from mempo.process_pool import ProcessPool


class PoolActor:
    """Owns a node's pool. Calls and replies pass through as bytes: it imports nothing of what they hold."""

    def __init__(self, processes: int) -> None:
        self._pool = ProcessPool(processes)

    async def run(self, call: bytes, deadline_s: float) -> bytes:
        """See `mempo.pool.Pool`."""
        return await self._pool.run(call, deadline_s)


class NodePool:
    """The pool of the caller's node (`mempo.pool.Pool`); the first call on the node starts it.

    Args:
        processes: at most, per node.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._actor: Any = None

    async def run(self, call: bytes, deadline_s: float) -> bytes:
        """The reply to a packed call; failed with `pool_actor_died` if Ray lost the pool for good, or twice with it."""
        try:
            self._actor = self._actor or _actor_of_this_node(self._processes)
            return bytes(await self._actor.run.remote(call, deadline_s))
        except RayActorError as error:
            self._actor = None  # the next call finds another, or starts it
            return failed("pool_actor_died", " ".join(str(error).split()))


@cache
def node_pool(processes: int) -> NodePool:
    """This process' way to the pool of its node."""
    return NodePool(processes)


def _actor_of_this_node(processes: int) -> Any:
    node = ray.get_runtime_context().get_node_id()
    return (
        ray.remote(PoolActor)
        .options(
            # Actors' names are the run's own: another run on the node has another namespace.
            name=f"mempo_pool_{node}",
            get_if_exists=True,
            num_cpus=0,  # it must start also where placement groups hold every core
            max_restarts=-1,
            max_task_retries=1,  # calls of a pool that died go to the next one; what kills two of them is given up
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        .remote(processes)
    )
