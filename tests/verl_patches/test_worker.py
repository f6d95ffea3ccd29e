"""A weight sync that the engine does not take ends with the engine's error, not in a hang."""

from types import SimpleNamespace

import pytest
import ray
import torch
import zmq

from verl_patches.worker import EngineCalls, MempoWorker, receive_deadline, share_cores


def test_a_blocking_receive_gives_up_only_while_the_deadline_holds():
    context = zmq.Context.instance()
    with receive_deadline(0.05), context.socket(zmq.REQ) as asking:
        asking.bind("inproc://deadline")
        with context.socket(zmq.REP) as silent:
            silent.connect("inproc://deadline")
            asking.send(b"weights")
            with pytest.raises(zmq.Again):
                asking.recv()
    with context.socket(zmq.REQ) as later:
        assert later.getsockopt(zmq.RCVTIMEO) == -1


class Stuck:
    async def update_weights(self, global_steps=None, mode="auto"):
        await self.rollout._execute_method("update_weights_from_ipc", non_block=True)
        raise zmq.Again


class Worker(MempoWorker, Stuck):
    weight_sync_deadline_s = 3.0

    def __init__(self):
        async def execute(method, non_block=False):
            return "the call"

        self.rollout = SimpleNamespace(_execute_method=execute)
        self._engine_calls = EngineCalls(self.rollout)


async def test_the_engines_error_is_the_cause(monkeypatch):
    def fail(ref, timeout):
        assert ref == "the call"
        raise AttributeError("'Parameter' object has no attribute 'weight_loader'")

    monkeypatch.setattr(ray, "get", fail)
    with pytest.raises(
        RuntimeError, match="did not take the new weights: AttributeError: 'Parameter' object"
    ):
        await Worker().update_weights(global_steps=1)


async def test_an_engine_that_only_hangs_is_told_by_its_silence(monkeypatch):
    def silent(ref, timeout):
        raise ray.exceptions.GetTimeoutError

    monkeypatch.setattr(ray, "get", silent)
    with pytest.raises(RuntimeError, match="no answer in 3 s"):
        await Worker().update_weights(global_steps=1)


def test_a_training_worker_computes_on_every_core_of_a_cpu(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr("verl_patches.worker.get_device_name", lambda: "cpu")
    monkeypatch.setattr("verl_patches.worker.os.sched_getaffinity", lambda pid: {0, 1, 2})
    try:
        share_cores()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_on_a_gpu_the_threads_stay_as_they_are(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr("verl_patches.worker.get_device_name", lambda: "cuda")
    share_cores()
    assert torch.get_num_threads() == before
