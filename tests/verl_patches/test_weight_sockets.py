"""Sockets of the weight sync: both ends of a run share a name, two runs on a machine never do."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

from verl_patches.weight_sockets import SOCKETS, VERLS, name_sockets
from verl_patches.wiring import RUN_NAME, wire_ray

HANDLE = f"ipc://{VERLS}01000000-replica-0-rank-0.sock"


def ends(monkeypatch, run):
    class Sender:
        def __init__(self, zmq_handle, bucket_size_mb=512):
            self.zmq_handle = zmq_handle

    class Receiver(Sender):
        def __init__(self, zmq_handle, device, use_shm=False):
            self.zmq_handle = zmq_handle

    module = SimpleNamespace(BucketedWeightSender=Sender, BucketedWeightReceiver=Receiver)
    name_sockets(module)
    monkeypatch.setenv(RUN_NAME, run)
    return Sender(HANDLE, bucket_size_mb=1).zmq_handle, Receiver(zmq_handle=HANDLE, device=None).zmq_handle


def test_the_ends_of_a_run_meet_and_those_of_two_runs_do_not(monkeypatch):
    first, second = ends(monkeypatch, "aa"), ends(monkeypatch, "bb")
    assert first[0] == first[1] == f"ipc://{VERLS}aa-01000000-replica-0-rank-0.sock"
    assert second[0] == second[1] != first[0]


def test_verls_handles_are_what_is_renamed():
    folder = Path(importlib.util.find_spec("verl").origin).parent / "workers" / "rollout" / "vllm_rollout"
    for name in ("utils.py", "vllm_rollout.py"):  # the receiving end and the sending one
        assert f"ipc://{VERLS}" in (folder / name).read_text()
    assert SOCKETS.rpartition(".")[2] + ".py" in {path.name for path in folder.iterdir()}


def test_every_start_has_a_name_of_its_own_and_all_workers_get_it(compose, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    names = []
    for _ in range(2):
        config = compose()
        wire_ray(config)
        names.append(config.ray_kwargs.ray_init.runtime_env.env_vars[RUN_NAME])
    assert len(set(names)) == 2
    assert all(len(name) == 16 for name in names)
