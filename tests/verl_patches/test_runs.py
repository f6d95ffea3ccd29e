"""Real runs on the CPU: verl's trainer, Ray, vLLM and FSDP2 around a tiny random model."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from mempo.memory_scores import STATUSES
from mempo.trajectory import Trajectory
from tests.verl_patches.running import run
from tests.verl_patches.scripted import SCRIPTED_LOGPROB
from tests.verl_patches.tiny import build_root

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

ROWS_OF_A_SESSION = 2  # the scripted agent searches once, then answers; one row per turn in window:1


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    build_root(folder)
    return folder


def check_one_failed_session(finished):
    assert finished.finish() == 0, finished.log[-6000:]
    assert [line["step"] for line in finished.metrics] == [1, 2]
    assert sum(line.get("failures/injected", 0) for line in finished.metrics) == 1
    for line in finished.metrics:
        assert line["failures/total"] == line.get("failures/injected", 0)
        sessions = 16 - line["failures/total"]
        assert line["trajectory/count"] == sessions, "nothing is refilled"
        rows = sessions * ROWS_OF_A_SESSION
        assert line["rows/produced"] == line["rows/transferred"] == line["rows/consumed"] == rows
        assert line["rows/mini_batches"] == 2
        assert line["memory/turns"] == sum(line[f"memory/{status}"] for status in STATUSES) == rows
        assert line["memory/scored"] == line["memory/first"] == sessions
        assert 0 < line["memory/advantage_mass_share"] < 1
        assert line["memory/nonzero_share"] > 0
        assert line["timing_s/memory_scoring"] > 0
        assert line["actor/grad_norm"] > 0


def test_a_sync_run_trains_on_the_sessions_that_are_left(root):
    pooled = "+agent.verifier=tests.mempo.rewards:in_another_process"
    with run(root, "agent.fault=first_session", pooled) as started:
        check_one_failed_session(started)
        assert started.metrics[0]["failures/injected"] == 1
        assert started.metrics[0]["training/rollout_probs_diff_max"] >= 0
        assert len(started.trajectories(1)) == 2
        assert list((started.folder / "tensorboard").iterdir())


@pytest.mark.slow
def test_a_colocate_async_run_trains_on_the_sessions_that_are_left(root):
    mode = ["trainer.v1.trainer_mode=colocate_async", "trainer.test_freq=2"]
    with run(root, "agent.fault=first_session", *mode) as started:
        check_one_failed_session(started)
        validated = started.metrics[-1]
        assert validated["val-failures/total"] == 0
        assert 0 <= validated["val-core/tiny/acc/mean@1"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "colocate_async"])
def test_a_step_without_trajectories_ends_the_run_with_the_cause(root, mode):
    with run(root, "agent.fault=all", f"trainer.v1.trainer_mode={mode}") as started:
        assert started.finish() != 0
        assert "training stopped: step 1: 16 of 16 sessions failed" in started.log
        assert "16 x ValueError (question " in started.log
        assert "injected into every session" in started.log
        assert started.metrics == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "colocate_async"])
def test_dynamic_sampling_trains_on_questions_whose_rollouts_differ(root, mode):
    """With two rollouts every other question is equal. The first one keeps a single rollout, which is no reason to drop it."""
    settings = ["enable=true", "max_num_gen_batches=20"]
    overrides = [
        *(f"algorithm.filter_groups.{setting}" for setting in settings),
        f"trainer.v1.trainer_mode={mode}",
        "actor_rollout_ref.rollout.n=2",
        "agent.fault=first_session",
        "run.sample_trajectories=1000",
    ]
    with run(root, *overrides) as finished:
        assert finished.finish() == 0, finished.log[-6000:]
        lines = finished.metrics
        kept = [finished.trajectories(step) for step in (1, 2)]
    assert [line["step"] for line in lines] == [1, 2]
    assert sum(line["dropped/equal"] for line in lines if "dropped/equal" in line) > 0
    assert sum(line["failures/injected"] for line in lines if "failures/injected" in line) == 1
    for line, trajectories in zip(lines, kept, strict=True):
        failed, equal = line["failures/total"], line.get("dropped/equal", 0)
        assert line["trajectory/count"] == len(trajectories) == 8 - failed
        assert line["dropped/groups"] == equal + line.get("dropped/surplus", 0)
        assert line["dropped/rollouts"] == 2 * line["dropped/groups"]
        assert line["trajectory/sessions"] == 8 + line["dropped/rollouts"]
        assert line.get("training/filter_groups/evicted_samples", 0) == equal
        trained = line["trajectory/count"] * ROWS_OF_A_SESSION
        assert line["rows/transferred"] == line["rows/consumed"] == trained
        assert line["rows/produced"] == trained + line["rows/dropped"]
        assert line["rows/dropped"] == line["dropped/rollouts"] * ROWS_OF_A_SESSION
        rewards = {}
        for trajectory in trajectories:
            rewards.setdefault(trajectory["session"].rsplit("_", 1)[0], []).append(trajectory["reward"])
        assert sorted(len(set(values)) for values in rewards.values()) == [1] * failed + [2] * (4 - failed)


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_questions_of_an_unbroken_one(tmp_path_factory):
    """14 questions in batches of 4 make epochs of 3 steps: the kill comes at the border, the run goes on beyond it."""
    every = ["run.sample_trajectories=1000", "trainer.total_training_steps=5", "trainer.save_freq=1"]
    resume = [*every, "trainer.resume_mode=auto"]
    unbroken_root, killed_root = tmp_path_factory.mktemp("unbroken"), tmp_path_factory.mktemp("killed")
    for folder in (unbroken_root, killed_root):
        build_root(folder)
    kept = "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]"
    with run(unbroken_root, *every, kept, "memory.scorer=reference") as unbroken:
        assert unbroken.finish() == 0, unbroken.log[-6000:]
    with run(killed_root, *resume) as killed:
        killed.wait_for_step(3)
        killed.kill()
    with run(killed_root, *resume) as resumed:
        assert resumed.finish() == 0, resumed.log[-6000:]
    assert [line["step"] for line in resumed.metrics] == [1, 2, 3, 4, 5]
    for step in range(1, 6):
        assert len(unbroken.asked(step)) == 4
        assert resumed.asked(step) == unbroken.asked(step)
    assert unbroken.asked(4) != unbroken.asked(1)

    def rewards(finished):
        lines = finished.trajectories(1)
        return sorted((line["trajectory"]["task"]["id"], line["reward"]) for line in lines)

    assert rewards(resumed) == rewards(unbroken), "the same seed gives the same first step"
    assert len({reward for _, reward in rewards(unbroken)}) > 1
    for name in ("memory/p_memory", "memory/p_reference", "memory/reward_std"):
        by_tree, plainly = resumed.metrics[0][name], unbroken.metrics[0][name]
        assert by_tree == pytest.approx(plainly, abs=1e-4), "the tree scores as the reference does"
    assert not [name for name in resumed.metrics[0] if name.startswith("memory/tree_refused")]

    fresh, stale = (largest_error(unbroken_root, unbroken.trajectories(2), step) for step in (1, 3))
    assert fresh < 1e-3, "the engine samples with the weights that the trainer has"
    assert stale > 10 * fresh


def largest_error(root, lines, step):
    """Largest difference between the log-probs that the engine reported and those under the weights of a checkpoint."""
    folder = root / "checkpoints" / f"global_step_{step}" / "actor" / "huggingface"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    errors = []
    for line in lines:
        for turn in Trajectory.from_record(line["trajectory"]).turns:
            ids = torch.tensor([turn.prompt_ids + turn.response_ids])
            with torch.no_grad():
                logprobs = model(ids).logits[0].log_softmax(-1)
            for place, (token, said) in enumerate(zip(turn.response_ids, turn.logprobs, strict=True)):
                if said != SCRIPTED_LOGPROB:
                    errors.append(abs(float(logprobs[len(turn.prompt_ids) + place - 1, token]) - said))
    assert errors
    return max(errors)
