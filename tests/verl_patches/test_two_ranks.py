"""Two data-parallel ranks make the update that one rank makes, through verl's real worker, engine and loss.

So they do after they have scored memories with packed trees: 3 trajectories on one rank, 1 on the other.
"""

import socket
import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM

from mempo.scoring.packing import schedule
from mempo.scoring.sequences import SequenceScorer
from tests.mempo.scoring.models import assert_same, generator, trajectory_probes
from tests.verl_patches.tiny import REPOSITORY, build_model, environment
from verl_patches.minibatch import plan_mini_batches
from verl_patches.worker import ROWS_METRIC


def random_row(generator, prompt, response):
    def ids(size):
        return torch.randint(5, 300, (size,), generator=generator)

    mask = torch.ones(response, dtype=torch.int64)
    mask[1 : response // 3] = 0  # an observation in the middle
    return {
        "prompts": ids(prompt),
        "responses": ids(response),
        "response_mask": mask,
        "old_log_probs": -6.0 + 0.1 * torch.randn(response, generator=generator) * mask,
        "advantages": torch.randn(response, generator=generator) * mask,
    }


def start(job, out, scratch, rank, world, port):
    env = environment(scratch) | {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.verl_patches.update_rank", str(job), str(out)]
    return subprocess.Popen(
        command, env=env, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    build_model(folder / "model")
    return folder


@pytest.fixture(scope="module")
def memories():
    """One long trajectory and three short ones, so that balance by tokens puts 1 on one rank and 3 on the other."""
    random = generator()
    probes = [trajectory_probes(random, turns=turns) for turns in (12, 3, 3, 4)]
    return probes, schedule(probes, budget=400, ranks=2)


@pytest.fixture(scope="module")
def updates(root, memories):
    """World size → what rank 0 reported: rows of unequal number and length, the last mini-batch needs padding."""
    generator = torch.Generator().manual_seed(3)
    counts = [1, 3, 2, 1, 1]
    rows = [random_row(generator, 10 + 7 * i, 12 + 5 * (i % 3)) for i in range(sum(counts))]
    trajectories, position = [], 0
    for count in counts:
        trajectories.append(
            [len(row["prompts"]) + len(row["responses"]) for row in rows[position : position + count]]
        )
        position += count
    overrides = [
        f"root={root}",
        "actor_rollout_ref.actor.optim.optimizer=SGD",
        "actor_rollout_ref.actor.optim.lr=1.0",
        "actor_rollout_ref.actor.optim.weight_decay=0",
        "actor_rollout_ref.actor.optim.clip_grad=100",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=256",  # several micro-batches
    ]
    results = {}
    for world in (1, 2):
        job, out = root / f"job{world}.pt", root / f"out{world}.pt"
        plan = {"overrides": overrides, "rows": rows, "plan": plan_mini_batches(trajectories, 3, world)}
        torch.save(plan if world == 1 else plan | {"trees": memories[1].trees}, job)
        port = free_port()
        ranks = [start(job, out, root, rank, world, port) for rank in range(world)]
        logs = [rank.communicate(timeout=240)[0] for rank in ranks]
        assert all(rank.returncode == 0 for rank in ranks), logs[0][-3000:]
        results[world] = torch.load(out, weights_only=False)
    return results


def flatten(value):
    return [number for item in value for number in flatten(item)] if isinstance(value, list) else [value]


@pytest.mark.timeout(600)
def test_loss_and_weights_are_those_of_one_rank(updates):
    one, two = updates[1], updates[2]
    assert len(flatten(one["metrics"]["loss"])) == len(flatten(two["metrics"]["loss"])) == 2, (
        "two mini-batches"
    )
    assert flatten(two["metrics"]["loss"]) == pytest.approx(
        flatten(one["metrics"]["loss"]), rel=1e-4, abs=1e-6
    )
    assert flatten(two["metrics"]["grad_norm"]) == pytest.approx(
        flatten(one["metrics"]["grad_norm"]), rel=1e-4
    )
    for name, weight in one["weights"].items():
        torch.testing.assert_close(two["weights"][name], weight, rtol=1e-4, atol=1e-6)


def test_padding_rows_are_not_counted(updates):
    assert sum(flatten(updates[1]["metrics"][ROWS_METRIC])) == 8
    assert sum(flatten(updates[2]["metrics"][ROWS_METRIC])) == 8


def test_memories_scored_on_unequal_ranks_have_the_log_probs_of_one_sequence_per_probe(
    root, memories, updates
):
    probes, plan = memories
    members = [[member for pack in packs for member in pack.members] for packs in plan.ranks]
    assert sorted(map(len, members)) == [1, 3]
    assert len({len(packs) for packs in plan.ranks}) == 1, "the same number of forwards on both"
    answers = [torch.load(root / f"out2.pt.scores{rank}") for rank in range(2)]
    model = AutoModelForCausalLM.from_pretrained(root / "model", dtype=torch.float32)
    assert_same(plan.collect(probes, answers), SequenceScorer(model, 4_000).answer_logprobs(probes))
