"""The training stage: verl in a process of its own, followed through what it writes down."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from tools.run.checkpoint import latest, resumption
from tools.run.errors import RunError
from tools.run.files import write_text
from tools.run.machine import environment_for
from tools.run.metrics import MetricsFollower, Step
from tools.run.processes import descendants, end_children, start, wait
from tools.run.search import SearchAccess

LOG = "train.log"
CONFIG = "config.yaml"
TAIL_LINES = 30
EVERY_S = 1.0


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / CONFIG

    @property
    def log(self) -> Path:
        return self.path / LOG

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def trajectories(self) -> Path:
        return self.path / "trajectories"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def stages(self) -> Path:
        return self.path / "stages"

    @property
    def evaluation(self) -> Path:
        return self.path / "eval"


def train(
    config: DictConfig,
    folder: RunFolder,
    access: SearchAccess,
    on_steps: Callable[[list[Step]], None],
) -> int:
    """Trains from the latest checkpoint on; returns the number of steps that are done in all.

    Args:
        config: complete, with data files and model path.
        on_steps: called about once a second with the steps that finished since.

    Raises:
        RunError: training ended with an error; the message holds the cause that it named, or the end of its log.
    """
    config = config.copy()
    config.search.url, config.search.token_env = access.url, access.token_env
    save_config(config, folder.config)
    steps = int(config.trainer.total_training_steps)
    resumed = resumption(config, repair=True)
    if resumed.problem:
        raise RunError(resumed.problem)
    if resumed.checkpoint is not None and resumed.checkpoint.step >= steps:
        return resumed.checkpoint.step
    mark = folder.log.stat().st_size if folder.log.exists() else 0
    follower = MetricsFollower(folder.metrics)
    follower.new()  # what an earlier start wrote is not news
    environment = environment_for(str(config.trainer.device))
    environment["TENSORBOARD_DIR"] = str(folder.path / "tensorboard")
    spare = descendants()
    child = start(
        [sys.executable, "-P", "-m", "tools.run.training_process", str(folder.config)],
        log=folder.log,
        environment=environment,
        folder=folder.path,  # verl and Ray write relative paths at times; they belong to the run
    )
    try:
        code = wait(child, EVERY_S, lambda: on_steps(follower.new()))
    finally:
        end_children(
            spare=spare
        )  # Ray's daemons may outlive the trainer a little; the next stage wants the cores
    if code != 0:
        cause = failure_text(folder.log, mark)
        raise RunError(
            f"training ended with exit code {code}: {full_disk_behind(cause, folder) or cause}\nThe log is {folder.log}"
        )
    done = latest(folder.checkpoints)
    return done.step if done is not None else steps


def full_disk_behind(cause: str, folder: RunFolder) -> str | None:
    """The one line about a full disk, where the process could not say it itself: the log lies on that disk too."""
    from verl_patches.disk import DiskFull, disk_full, free_mib, said_refusal

    if "last complete checkpoint" in cause:
        return None
    reason = said_refusal(cause) or ("disk full" if free_mib(folder.path) < 1 else None)
    if reason is None:
        return None
    said = f"{reason}: while training in {folder.path} ({free_mib(folder.path)} MiB free)"
    return disk_full(DiskFull(said), folder.checkpoints)


def save_config(config: DictConfig, path: Path) -> None:
    """Writes a config as YAML with every interpolation resolved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, OmegaConf.to_yaml(OmegaConf.create(OmegaConf.to_container(config, resolve=True))))


def failure_text(log: Path, offset: int = 0) -> str:
    """The cause that the training process named on its last lines, else the end of its log from `offset` on."""
    with log.open("rb") as file:
        file.seek(offset)
        lines = file.read().decode("utf-8", "replace").splitlines()
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].startswith("training stopped: "):
            return "\n".join(lines[number:])[len("training stopped: ") :]
    shown = [line for line in lines if line.strip()]
    errors = [line for line in shown if re.match(r"^(\w+\.)*\w*(Error|Exception)\b", line)]
    named = f"{errors[-1]}\n" if errors else ""
    return f"{named}the last lines:\n" + "\n".join(shown[-TAIL_LINES:])
