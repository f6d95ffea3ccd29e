"""The cold start of the GPU recipes: the task's oracle trajectories through verl's SFT trainer."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig

from tools.run.checkpoint import latest
from tools.run.data import DataFolder
from tools.run.errors import RunError
from tools.run.machine import environment_for
from tools.run.processes import descendants, end_children, start, wait
from tools.run.quoting import quoted
from tools.run.stages import Say
from tools.run.training import failure_text


def sft_overrides(config: DictConfig, rows: Path, out: Path) -> list[str]:
    """What verl's SFT trainer (config `sft_trainer_engine`) is told."""
    sft, window = config.run.sft, int(config.agent.max_context_tokens)
    return [
        f"data.train_files={quoted(rows)}",
        f"data.train_batch_size={sft.batch_size}",
        f"data.max_length={window}",
        f"data.max_token_len_per_gpu={window}",
        f"model.path={quoted(config.actor_rollout_ref.model.path)}",
        "model.use_remove_padding=true",
        "model.enable_gradient_checkpointing=true",
        f"engine.strategy={config.actor_rollout_ref.actor.strategy}",
        f"optim.lr={sft.lr}",
        f"trainer.default_local_dir={quoted(out)}",
        f"trainer.total_epochs={sft.epochs}",
        f"trainer.seed={config.seed}",
        f"trainer.device={config.trainer.device}",
        f"trainer.n_gpus_per_node={config.trainer.n_gpus_per_node}",
        "trainer.logger=[console]",
        "trainer.project_name=mempo",
        "trainer.experiment_name=cold-start",
        "checkpoint.save_contents=[model,optimizer,extra,hf_model]",
    ]


def build_with_verl(config: DictConfig, data: DataFolder, folder: Path, say: Say) -> None:
    """Writes the oracle's rows and trains on them, on this node's GPUs; the result is `folder/model`.

    Raises:
        RunError: the data have no supporting facts, or training failed.
    """
    from tools.sft.oracle import OracleOutput, write_oracle

    rows = folder / "sft.parquet"
    # History rows only: verl's trainer learns every assistant message of a row, and a window's row repeats earlier ones.
    output = replace(OracleOutput(), contexts={"history": 1}, prompt=str(config.agent.prompt))
    try:
        count = write_oracle(data.path, rows, output, int(config.seed))
    except ValueError as error:
        raise RunError(
            f"cold start: {error}; or set run.cold_start=none and give a model that knows the format"
        ) from error
    say(f"cold start: {count} oracle trajectories, {config.run.sft.epochs} epoch(s) with verl's SFT trainer")
    work, log = folder / "sft", folder / "sft.log"
    command = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", "--nnodes=1"]
    command += [f"--nproc_per_node={config.trainer.n_gpus_per_node}", "-m", "verl.trainer.sft_trainer"]
    spare = descendants()
    child = start(
        [*command, *sft_overrides(config, rows, work)],
        log=log,
        environment=environment_for(str(config.trainer.device)),
        folder=folder,
    )
    try:
        code = wait(child, 5.0, lambda: None)
    finally:
        end_children(spare=spare)
    saved = latest(work)
    if code != 0 or saved is None:
        raise RunError(f"the cold start ended with exit code {code}: {failure_text(log)}\nThe log is {log}")
    shutil.move(saved.folder / "huggingface", folder / "model")
    shutil.rmtree(work)
