"""Our trainers take the place of verl's three; the parts that need no Ray."""

import time

import pytest
import ray
import torch
from transfer_queue import KVBatchMeta
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import trainer_base
from verl.workers.engine_workers import ActorRolloutRefWorker

from verl_patches import trainer as ours
from verl_patches.ray_classes import written_class
from verl_patches.replay import MempoReplayBuffer, MempoReplayBufferAsync
from verl_patches.wiring import wire
from verl_patches.worker import MempoWorker, counted_loss, extended, trained_rows

SEPARATE = [
    "trainer.v1.trainer_mode=separate_async",
    "trainer.v1.separate_async.parameter_sync_step=2",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl",
]
MODES = {"sync": [], "colocate_async": ["trainer.v1.trainer_mode=colocate_async"], "separate_async": SEPARATE}


def test_the_registry_holds_ours_under_verls_names(monkeypatch):
    monkeypatch.setattr(trainer_base, "TRAINER_REGISTRY", dict(trainer_base.TRAINER_REGISTRY))
    verls = dict(trainer_base.TRAINER_REGISTRY)
    ours.install_trainers()
    for mode in MODES:
        cls = trainer_base.get_trainer_cls(mode)
        assert issubclass(cls, ours.MempoTrainer)
        assert issubclass(cls, verls[mode])


@pytest.mark.parametrize("mode", MODES)
def test_a_trainer_of_each_mode_can_be_built(compose, mode):
    trainer = ours.TRAINERS[mode](wire(compose(*MODES[mode])))
    expected = MempoReplayBuffer if mode == "sync" else MempoReplayBufferAsync
    assert type(trainer.replay_buffer) is expected


@pytest.mark.parametrize(
    ("mode", "base"), [("sync", ActorRolloutRefWorker), ("separate_async", DetachActorWorker)]
)
def test_every_mode_counts_rows_in_the_worker_class_that_its_role_got(compose, mode, base):
    trainer = ours.TRAINERS[mode](wire(compose(*MODES[mode])))
    trainer._init_resource_pool_mgr()
    cls = written_class(trainer.role_worker_mapping[Role.ActorRollout])
    assert issubclass(cls, MempoWorker)
    assert issubclass(cls, base)
    assert cls.init_model is MempoWorker.init_model


def test_verl_finds_our_class_behind_rays():
    remote = extended(ray.remote(ActorRolloutRefWorker), 5.0)
    assert issubclass(remote.__ray_actor_class__, MempoWorker)
    assert remote.__ray_actor_class__.weight_sync_deadline_s == 5.0


def test_the_loss_is_verls_and_rows_with_a_token_are_counted():
    mask = torch.nested.as_nested_tensor(
        [torch.tensor([0, 1, 1]), torch.tensor([0]), torch.tensor([1])], layout=torch.jagged
    )
    assert trained_rows(mask) == 2
    loss, metrics = counted_loss(
        model_output=None, data={"response_mask": mask}, loss_fn=lambda model_output, data: (3.0, {"a": 1})
    )
    assert (loss, metrics) == (3.0, {"a": 1, "mempo_rows": 2})


def test_a_batch_without_rows_comes_back_empty_instead_of_verls_error(compose, monkeypatch):
    trainer = ours.MempoTrainerSync(wire(compose()))
    buffer = trainer.replay_buffer
    tags = {"u": {"is_prompt": True, "status": "finished", "global_steps": 1}}
    monkeypatch.setattr("transfer_queue.kv_list", lambda *args: {"train": tags})
    batch, _ = buffer.sample(global_steps=1, partition_id="train", batch_size=1)
    assert isinstance(batch, KVBatchMeta)
    assert len(batch) == 0
    assert buffer.selected_uids == ["u"]


def test_a_group_that_verl_calls_failed_is_sampled_not_replaced(compose, monkeypatch):
    """verl's async buffer would drop the group and ask another question; its other sessions are good."""
    trainer = ours.MempoTrainerColocateAsync(wire(compose(*MODES["colocate_async"])))
    prompt = {"is_prompt": True, "status": "failure", "global_steps": 1}
    listed = {"train": {"u": prompt, "u_1_0": {"status": "success"}}}
    monkeypatch.setattr("transfer_queue.kv_list", lambda *args: listed)
    monkeypatch.setattr("transfer_queue.kv_clear", lambda **kwargs: None)
    batch, metrics = trainer.replay_buffer.sample(global_steps=1, partition_id="train", batch_size=1)
    assert batch.keys == ["u_1_0"]
    assert metrics == {}


def test_questions_of_one_step_keep_their_order(compose, monkeypatch):
    trainer = ours.MempoTrainerSync(wire(compose()))
    names = [f"u{index}" for index in range(9)]
    prompt = {"is_prompt": True, "status": "finished", "global_steps": 1}
    listed = {"train": dict.fromkeys(names, prompt) | {"u0_0_0": {"status": "success"}}}
    monkeypatch.setattr("transfer_queue.kv_list", lambda *args: listed)
    monkeypatch.setattr("transfer_queue.kv_clear", lambda **kwargs: None)
    trainer.replay_buffer.sample(global_steps=1, partition_id="train", batch_size=9)
    assert trainer.replay_buffer.selected_uids == names


def test_polls_are_quick_at_first_and_become_verls(compose, monkeypatch):
    buffer = ours.MempoTrainerSync(wire(compose())).replay_buffer
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    for waited in (0.0, 5.0, 100.0):
        buffer._waiting_since = time.monotonic() - waited
        buffer._wait_for_next_poll("train", time.time())
    assert slept == [pytest.approx(0.05), pytest.approx(0.5, rel=0.1), 2.0]
