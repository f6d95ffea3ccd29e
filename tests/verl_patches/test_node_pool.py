"""The pool of a Ray node: one for all who ask on it, beside full cores, and its calls outlive it."""

import os
import tempfile
from pathlib import Path

import pytest
import ray

from mempo.agents.base import RolloutError
from mempo.pool import in_pool, pool_in_use
from tests.mempo import rewards
from tests.verl_patches.tiny import environment
from verl_patches import node_pool
from verl_patches.node_pool import NodePool


class Worker:
    """Asks as an agent loop worker does."""

    def __init__(self, processes):
        self.pool = NodePool(processes)

    async def ask(self, function, *args):
        with pool_in_use(self.pool):
            try:
                return await in_pool(function, *args, deadline_s=60)
            except RolloutError as error:
                return error.cause


@pytest.fixture(scope="module")
def workers():
    """Two workers that hold all cores of the node between them."""
    folder = tempfile.TemporaryDirectory(prefix="mp", ignore_cleanup_errors=True)
    with folder as scratch, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(Path(scratch)).items():
            patch.setenv(name, value)
        ray.init(num_cpus=2, include_dashboard=False, _temp_dir=scratch)
        remote = ray.remote(num_cpus=1)(Worker)
        yield [remote.remote(2) for _ in range(2)]
        ray.shutdown()


def needs_ray(test):
    return pytest.mark.ray(pytest.mark.slow(pytest.mark.timeout(300)(test)))


parent = os.getppid  # in a process of the pool, its actor


@needs_ray
def test_the_workers_of_a_node_share_one_pool(workers):
    parents = ray.get([worker.ask.remote(parent) for worker in workers * 2])
    assert len(set(parents)) == 1


@needs_ray
def test_what_dies_or_raises_costs_its_own_call(workers):
    first, second = workers
    functions = [os.getpid, rewards.die, rewards.refuse, os.getpid, rewards.give_up, os.getpid]
    asked = zip([first, second] * 3, functions, strict=True)
    replies = ray.get([worker.ask.remote(each) for worker, each in asked])
    assert replies[1] == "pool_process_died"
    assert replies[2] == "ValueError"
    assert replies[4] == "sandbox_full"
    assert all(isinstance(replies[place], int) for place in (0, 3, 5))


@needs_ray
def test_a_call_outlives_the_pool_that_took_it(workers, tmp_path):
    old = ray.get(workers[1].ask.remote(parent))
    waiting = workers[1].ask.remote(rewards.spin_until, str(tmp_path / "done"))
    os.kill(old, 9)
    (tmp_path / "done").touch()
    assert ray.get(waiting) is None
    assert ray.get(workers[0].ask.remote(parent)) != old


def test_a_process_has_one_way_to_its_pool():
    assert node_pool.node_pool(3) is node_pool.node_pool(3)


async def test_a_pool_that_is_lost_is_named_and_looked_for_anew(monkeypatch):
    class Dead:
        class run:
            @staticmethod
            async def remote(call, deadline_s):
                raise ray.exceptions.RayActorError()

    reached = []
    monkeypatch.setattr(node_pool, "_actor_of_this_node", lambda processes: reached.append(processes) or Dead)
    with pool_in_use(NodePool(3)):
        for _ in range(2):
            with pytest.raises(RolloutError) as caught:
                await in_pool(os.getpid, deadline_s=60)
            assert caught.value.cause == "pool_actor_died"
    assert reached == [3, 3]
