"""One data-parallel rank of verl's real actor worker, without Ray: `python -m tests.verl_patches.update_rank JOB OUT`.

The job holds the config's overrides, the rows and a mini-batch plan; RANK, WORLD_SIZE and MASTER_* come from the
environment. Each rank first scores its trees, if the job has some. Rank 0 writes the loss, the rows it counted and the
weights after the update; every rank its scores.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from hydra import compose, initialize_config_dir
from omegaconf import open_dict
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import ActorRolloutRefWorker

from verl_patches.memory_worker import MemoryWorker
from verl_patches.minibatch import PADDING
from verl_patches.worker import MempoWorker


class Actor(MempoWorker, MemoryWorker, ActorRolloutRefWorker):
    """What `extended` builds for Ray."""


def padding_row() -> dict[str, torch.Tensor]:
    """As verl builds them: end-of-text tokens and an empty mask."""
    ids = torch.full((128,), 2)
    return {
        "prompts": ids[:127],
        "responses": ids[127:],
        "response_mask": torch.zeros(1, dtype=torch.int64),
        "old_log_probs": torch.zeros(1),
        "advantages": torch.zeros(1),
    }


def batch_of(rows: list[dict[str, torch.Tensor]]) -> TensorDict:
    def nested(values: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(values, layout=torch.jagged)

    fields = {name: nested([row[name] for row in rows]) for name in rows[0]}
    whole = [torch.cat([row["prompts"], row["responses"]]) for row in rows]
    fields["input_ids"] = nested(whole)
    fields["position_ids"] = nested([torch.arange(len(ids)) for ids in whole])
    fields["loss_mask"] = fields["response_mask"]
    return TensorDict(fields, batch_size=len(rows))


def main(job_path: str, out_path: str) -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    job = torch.load(job_path, weights_only=False)
    with initialize_config_dir(str(Path(__file__).parent / "configs"), version_base=None):
        config = compose("tiny", overrides=job["overrides"])
    with open_dict(config):
        config.actor_rollout_ref.actor.optim.total_training_steps = 2
    worker = Actor(config=config.actor_rollout_ref, role="actor")
    worker.init_model()
    if "trees" in job:
        assert worker.tree_refusal() is None
        torch.save(worker.score_memories(job["trees"][rank]), f"{out_path}.scores{rank}")
    plan = job["plan"]
    share = len(plan.layout) // world
    own = plan.layout[rank * share : (rank + 1) * share]
    data = batch_of([padding_row() if row == PADDING else job["rows"][row] for row in own])
    tu.assign_non_tensor(
        data,
        calculate_entropy=False,
        global_batch_size=len(plan.layout) // plan.mini_batches,
        num_mini_batch=plan.mini_batches,
        epochs=1,
        seed=1,
        dataloader_kwargs={"shuffle": False},
        temperature=1.0,
        distillation_use_topk=False,
    )
    metrics = worker.update_actor(data)["metrics"]
    weights = {name: tensor.clone() for name, tensor in worker.actor.engine.get_per_tensor_param()[0]}
    if rank == 0:
        torch.save({"metrics": metrics, "weights": weights}, out_path)


if __name__ == "__main__":
    main(*sys.argv[1:])
