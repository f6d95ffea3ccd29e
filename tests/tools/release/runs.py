"""Run folders of tiny models, as training leaves them behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import yaml

from tests.tools.release.shard_rank import VARIANTS, tiny_config
from tests.verl_patches.tiny import REPOSITORY, tiny_tokenizer

AGENT = {
    "name": "self_memory",
    "prompt": "brief",
    "context": "window:1",
    "max_turns": 3,
    "max_response_tokens": 40,
    "max_observation_tokens": 40,
    "max_context_tokens": 400,
    "force_memory_prefix": False,
}


def shard_with_processes(folder: Path, world: int) -> None:
    """Every variant, sharded by real ranks over gloo."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = os.environ | {
        "PYTHONPATH": str(REPOSITORY),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.tools.release.shard_rank", str(folder), *VARIANTS]
    ranks = [
        subprocess.Popen(
            command, cwd=REPOSITORY, env=common | {"RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(world)
    ]  # fmt: skip
    logs = [rank.communicate(timeout=280)[0] for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), logs[0][-3000:]
    for variant in VARIANTS:
        finish_run(folder / variant, variant)


def finish_run(run: Path, variant: str) -> None:
    """What lies around the shards: config and tokenizer of the model, and the run's own files."""
    hf = actor_of(run) / "huggingface"
    config = tiny_config(tied=variant.startswith("tied"))
    config.dtype = torch.bfloat16  # as verl writes it, whatever the weights are
    config.save_pretrained(hf)
    tiny_tokenizer().save_pretrained(hf)
    (run / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("2")
    settings: dict[str, Any] = {
        "seed": 5,
        "agent": AGENT,
        "memory": {"weight": 0.5, "likelihood": "all"},
        "search": {"topk": 2},
        "run": {"name": variant, "cold_start": "world", "path": str(run), "cache": str(run / "cache")},
        "task": {"name": "world"},
        "data": {"train_files": str(run / "data" / "train.parquet"), "train_batch_size": 4},
        "actor_rollout_ref": {"model": {"path": str(run / "start")}},
    }
    (run / "config.yaml").write_text(yaml.safe_dump(settings))
    steps = [
        {"step": step, "trajectory/reward_mean": step / 4, "trajectory/em": step / 5} for step in (1, 2, 3)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    told = {"commit": "abc", "cpus": 2, "cpu": "EPYC", "gpus": [], "versions": {"verl": "0.9.1"}}
    (run / "environment.json").write_text(json.dumps(told))


def actor_of(run: Path) -> Path:
    return run / "checkpoints" / "global_step_2" / "actor"
