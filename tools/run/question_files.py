"""Whether the questions of a run are fit for it: their rows, how many there are, and whether the agent can read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import DictConfig, OmegaConf

from mempo.agents.known import known_agent
from tools.data.row_check import FileCheck, check_file
from tools.run.data import DataFolder
from tools.run.errors import RunError

WITHOUT_DOCUMENTS = ("world", "hotpotqa")  # tasks that write none


class QuestionFiles:
    """What can be said of the questions before anything is built: all of a prepared folder, else what the task promises.

    Attributes:
        problems: one line each, naming file and row, or the keys.
        notes: what a user may want to know, and what stops nothing.
    """

    def __init__(self, config: DictConfig) -> None:
        self.notes: list[str] = []
        self.problems: list[str] = []
        reads = known_agent(str(config.agent.name)).reads
        if config.task.name == "parquet":
            if config.task.data_dir:
                self._read(config, DataFolder(Path(config.task.data_dir)), bool(reads))
            return
        if reads and config.task.name in WITHOUT_DOCUMENTS:
            self.problems.append(
                f"agent.name is {config.agent.name}, which reads documents, and task={config.task.name} has none: choose "
                "task=reading, or task=parquet with a folder of `mempo data long-context`"
            )
        self.problems += count_problems(config, promised(config), "task.{}")

    def _read(self, config: DictConfig, folder: DataFolder, documents: bool) -> None:
        checks = {
            split: check_file(path, documents=documents)
            for split, path in _files(folder).items()
            if path.is_file()  # a missing one has been named
        }
        for check in checks.values():
            self.problems += check.problems
        counts = {name: check.rows for name, check in checks.items() if check.rows}
        self.problems += count_problems(config, counts, f"{folder.path}/{{}}.parquet")
        self.notes += _trained_on(*checks.values()) if len(checks) == 2 else []


def check_prepared(config: DictConfig, folder: DataFolder) -> None:
    """After the data stage: how many questions there really are.

    Raises:
        RunError: they are too few.
    """
    try:
        counts = {split: pq.read_metadata(path).num_rows for split, path in _files(folder).items()}
    except (pa.ArrowException, OSError) as error:
        raise RunError(f"{folder.path}: not readable: {error}") from error
    if problems := count_problems(config, counts, f"{folder.path}/{{}}.parquet"):
        raise RunError("; ".join(problems))


def count_problems(config: DictConfig, counts: Mapping[str, int], where: str) -> list[str]:
    """Fewer questions than one batch, or than are to be evaluated.

    Args:
        counts: questions of `train` and `validation`; nothing is said about one that is left out.
        where: what says so, with `{}` for the split.
    """
    problems = []
    train, held_out = counts.get("train"), counts.get("validation")
    for key in _batch_keys(config):
        batch = _whole(config, key)
        asked = _least(train, _whole(config, "data.train_max_samples"))
        if batch is not None and asked is not None and asked < batch:
            problems.append(
                f"{key} is {batch}, but {where.format('train')} has {asked} questions{_cut(train, asked)}: lower {key} "
                "(and actor_rollout_ref.actor.ppo_mini_batch_size with it), or give more questions"
            )
    evaluated = _whole(config, "run.eval_questions")
    if evaluated is not None and held_out is not None and held_out < evaluated:
        problems.append(
            f"run.eval_questions is {evaluated}, but {where.format('validation')} has {held_out} questions: lower "
            "run.eval_questions (0 leaves the evaluation out), or hold out more"
        )
    return problems


def promised(config: DictConfig) -> dict[str, int]:
    """Questions by split, as far as the task's settings decide it."""
    default: dict[str, int] = {}
    if config.task.name == "world":
        from tools.world.settings import WorldSettings

        default = {"train": WorldSettings.train, "validation": WorldSettings.validation}
    elif config.task.name == "reading":
        from tools.world.reading import ReadingSettings

        default = {"train": ReadingSettings.train, "validation": ReadingSettings.validation}
    return {name: _whole(config, f"task.{name}") or count for name, count in default.items()}


def _files(folder: DataFolder) -> dict[str, Path]:
    return {"train": folder.train, "validation": folder.validation}


def _batch_keys(config: DictConfig) -> list[str]:
    """Which keys ask for questions at once: verl draws one at a time where it replaces some, and in the async modes."""
    one_at_a_time = config.trainer.v1.trainer_mode != "sync" or bool(
        OmegaConf.select(config, "algorithm.filter_groups.enable", default=False)
    )
    return ["data.train_batch_size"] if one_at_a_time else ["data.train_batch_size", "data.gen_batch_size"]


def _trained_on(train: FileCheck, validation: FileCheck) -> list[str]:
    """The same id alone says little: both files may count from 0."""
    shared = [name for name, asked in validation.questions.items() if train.questions.get(name) == asked]
    if not shared:
        return []
    return [
        f"{len(shared)} of {len(validation.questions)} held-out questions are trained on too (the first: {shared[0]!r}): the "
        "evaluation will count what was learned by heart"
    ]


def _whole(config: DictConfig, key: str) -> int | None:
    """A setting as a positive whole number; None for anything else, which the check of the keys names."""
    value: Any = OmegaConf.select(config, key, default=None)
    return value if type(value) is int and value > 0 else None


def _least(count: int | None, most: int | None) -> int | None:
    return count if count is None or most is None else min(count, most)


def _cut(count: int | None, asked: int) -> str:
    return "" if count == asked else f" (data.train_max_samples leaves so many of {count})"
