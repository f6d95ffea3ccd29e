"""A run that is killed at any point and resumed leaves what an unbroken one leaves. verl's own loop, no Ray."""

import builtins
import json
from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import save_file
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import trainer_base

from verl_patches import durable
from verl_patches.disk import DiskFull
from verl_patches.failures import RunFailed
from verl_patches.loader import SeededLoader
from verl_patches.resume import TRACKER
from verl_patches.tracking import SeparateTracking
from verl_patches.trainer import MempoTrainerSync
from verl_patches.wiring import wire

STEPS = 4


class Kill(BaseException):
    """SIGKILL at this point."""


@pytest.fixture(scope="module")
def plain(compose):
    config = wire(
        compose(
            "trainer.resume_mode=auto",
            "trainer.save_freq=2",
            "trainer.val_before_train=False",
            f"trainer.total_training_steps={STEPS}",
            "trainer.total_epochs=9",
        )
    )
    OmegaConf.resolve(config)  # verl resolves it at every start otherwise
    return config


@pytest.fixture
def start(plain, tmp_path, monkeypatch):
    """Starts a run, or goes on with it; `at` is the point and the step of the kill."""
    monkeypatch.setattr(
        trainer_base, "SkipManager", SimpleNamespace(init=lambda _: None, set_step=lambda _: None)
    )
    for name in ("Tracking", "ValidationGenerationsLogger", "DapoFilteredRewardTableLogger"):
        monkeypatch.setattr(trainer_base, name, lambda **_: SimpleNamespace(log=lambda **_: None))
    monkeypatch.setattr("transfer_queue.kv_clear", lambda **_: None)

    def started(at=None, *overrides):
        config = deepcopy(plain)
        config.run.path = f"{tmp_path}/run"
        config.trainer.default_local_dir = f"{tmp_path}/run/checkpoints"
        for override in overrides:
            OmegaConf.update(config, *override.split("="))
        trainer = MempoTrainerSync(config)

        def point(name):
            if at == (name, trainer.global_steps):
                raise Kill

        def save(path, *_, **__):
            folder = tmp_path / path
            (folder / "huggingface").mkdir(parents=True, exist_ok=True)
            point("no file")
            for kind in ("model", "optim", "extra_state"):
                torch.save({}, folder / f"{kind}_world_size_1_rank_0.pt")
                point(kind)
            (folder / "fsdp_config.json").write_text('{"world_size": 1}')
            save_file({"w": torch.zeros(2)}, folder / "huggingface" / "model.safetensors")
            point("actor")

        def opened(path, *more):
            file = builtins.open(path, *more)  # noqa: SIM115
            if str(path).endswith(TRACKER) and more == ("w",):
                point("torn pointer")
            return file

        def step(self, metrics, timing):
            next(iter(self.train_dataloader))
            metrics["actor/loss"] = self.global_steps / 10
            return KVBatchMeta(partition_id="train", keys=[], tags=[])

        def compute(self, batch, metrics, timing_raw, global_steps, epoch):  # verl's own names
            assert timing_raw["step"] > 0
            metrics |= {
                "training/global_step": global_steps,
                "training/epoch": epoch,
                "timing_s/step": timing_raw["step"],
            }

        monkeypatch.setattr(trainer_base, "Tracking", SeparateTracking)
        monkeypatch.setattr(trainer_base, "open", opened, raising=False)
        monkeypatch.setattr(trainer_base.PPOTrainer, "step", step)
        monkeypatch.setattr(trainer_base.PPOTrainer, "_compute_metrics", compute)
        for name in ("_start_profiling", "_stop_profiling", "_shutdown_dump_executor"):
            monkeypatch.setattr(trainer_base.PPOTrainer, name, lambda self: None)
        trainer.actor_rollout_wg = SimpleNamespace(
            save_checkpoint=save, load_checkpoint=lambda **_: point("load")
        )
        trainer.checkpoint_manager = SimpleNamespace(update_weights=lambda _: point("weights"))
        trainer.checkpoint_callback = SimpleNamespace(on_save=lambda **_: point("pointer"))
        trainer.use_critic, trainer._tree_refused, trainer.tokens = False, None, None
        trainer.train_dataloader = SeededLoader(
            [{"question": n} for n in range(12)], 4, list, seed=1, shuffle=True
        )
        trainer.steps_per_epoch, trainer.total_training_steps = 3, STEPS
        state = trainer.train_dataloader.state_dict
        trainer.train_dataloader.state_dict = lambda: point("no questions") or state()
        trainer._reissue_inflight_prompts = lambda: None
        logged = durable.RunLog.metrics

        def log(self, number, values):
            point("not logged")
            logged(self, number, values)
            if at == ("half a line", number):
                whole = (self.folder / "metrics.jsonl").read_text()
                (self.folder / "metrics.jsonl").write_text(whole[:-9])
                raise Kill
            point("logged")

        with monkeypatch.context() as patch:
            patch.setattr(durable.RunLog, "metrics", log)
            trainer._load_checkpoint()
            trainer.on_init_end()
            trainer.fit(None)
        return trainer

    return started


def left(folder):
    """All lines, without timings, and which steps have trajectories and a checkpoint."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    plain = [{key: value for key, value in line.items() if "timing" not in key} for line in lines]
    names = [path.name for part in ("trajectories", "checkpoints") for path in (folder / part).iterdir()]
    served = [
        torch.load(folder / "checkpoints" / f"global_step_{step}" / "data.pt")["served"] for step in (2, 4)
    ]
    return plain, sorted(names), served


POINTS = (
    "no file",
    "model",
    "optim",
    "extra_state",
    "actor",
    "no questions",
    "torn pointer",
    "pointer",
    "weights",
    "not logged",
    "half a line",
    "logged",
)
FIRST = ("extra_state", "torn pointer", "not logged")  # of the first checkpoint, before which there is none


def test_kills_at_every_point_leave_what_an_unbroken_run_leaves(start, tmp_path, capsys):
    start()
    unbroken = left(tmp_path / "run")
    assert [line["step"] for line in unbroken[0]] == [1, 2, 3, 4]
    assert unbroken[2] == [2, 4]
    kills = [(name, 4) for name in POINTS] + [(name, 2) for name in FIRST]
    for number, (name, step) in enumerate(kills):
        (tmp_path / "run").rename(tmp_path / f"done-{number}")
        with pytest.raises(Kill):
            start((name, step))
        start()
        assert left(tmp_path / "run") == unbroken, f"killed at {name} of step {step}"
    assert "going on from the checkpoint of step 2 (step 4 is left aside: actor/" in capsys.readouterr().out


def test_a_step_that_is_saved_again_keeps_no_file_of_its_earlier_try(start, tmp_path):
    start()
    checkpoints = tmp_path / "run" / "checkpoints"
    (checkpoints / TRACKER).write_text("2")
    with pytest.raises(Kill):
        start(("optim", 4))
    assert not (checkpoints / "global_step_4" / "data.pt").exists()


def test_a_path_to_half_a_checkpoint_is_refused(start, tmp_path):
    start()
    path = tmp_path / "run" / "checkpoints" / "global_step_4"
    (path / "data.pt").unlink()
    with pytest.raises(RunFailed, match=r"resume_from_path: .*global_step_4 cannot be resumed from: data.pt"):
        start(None, "trainer.resume_mode=resume_path", f"trainer.resume_from_path={path}")


def test_a_full_disk_names_the_checkpoint_and_not_what_torch_says(start, tmp_path, monkeypatch):
    def refuse(*_):
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598")

    monkeypatch.setattr("torch.save", refuse)
    with pytest.raises(DiskFull, match=r"disk full.*: while writing global_step_2 in .*MiB free"):
        start()
