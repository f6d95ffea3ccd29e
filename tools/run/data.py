"""The data stage: from `task.*` to a folder with train.parquet, validation.parquet and, for agents that search, corpus.jsonl."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tools.hashing import file_sha256
from tools.run.cache import cached, source_hash
from tools.run.errors import RunError
from tools.run.search import searches
from tools.run.stages import Say

QUESTIONS = ("train.parquet", "validation.parquet")
CORPUS = "corpus.jsonl"


def needed_files(config: DictConfig) -> tuple[str, ...]:
    """Names of the files that a run reads."""
    return (*QUESTIONS, CORPUS) if searches(config) else QUESTIONS


@dataclass(frozen=True)
class DataFolder:
    """A prepared data folder."""

    path: Path

    @property
    def train(self) -> Path:
        return self.path / "train.parquet"

    @property
    def validation(self) -> Path:
        return self.path / "validation.parquet"

    @property
    def corpus(self) -> Path:
        return self.path / CORPUS

    def missing(self, config: DictConfig) -> list[str]:
        """Names of the files that the run needs and that are not there."""
        return [name for name in needed_files(config) if not (self.path / name).is_file()]


def check_task(config: DictConfig) -> list[str]:
    """Problems of `task.*` that can be seen before anything is built."""
    task = config.task
    if task.name == "hotpotqa":
        problems = (
            []
            if task.input
            else ["task.input is not set: give the records, e.g. task.input=hotpot_train_v1.1.json"]
        )
        named = [("input", path) for path in _paths(task.input)]
        named += [("validation_input", path) for path in _paths(task.validation_input)]
        named += [("aliases", path) for path in _paths(task.aliases)]
        return problems + [f"task.{key}: {path} does not exist" for key, path in named if not path.is_file()]
    if task.name == "parquet":
        if not task.data_dir:
            return ["task.data_dir is not set: give a folder with " + ", ".join(needed_files(config))]
        missing = DataFolder(Path(task.data_dir)).missing(config)
        return [f"task.data_dir: {task.data_dir} has no {', '.join(missing)}"] if missing else []
    return []


def data_inputs(config: DictConfig) -> dict[str, Any]:
    """All that decides what the data are: settings, the contents of the input files, and our code that converts them."""
    task: dict[str, Any] = OmegaConf.to_container(config.task, resolve=True)  # type: ignore[assignment]
    task.pop("reward", None)  # concerns the reward only
    if task["name"] == "parquet":
        folder = DataFolder(Path(task["data_dir"]))
        return task | {"files": {name: file_sha256(folder.path / name) for name in needed_files(config)}}
    if task["name"] == "world":
        return task | {
            "code": source_hash(["tools/world", "tools/sft", "tools/data/schema.py", "mempo/prompts.py"])
        }
    if task["name"] == "reading":
        code = source_hash(["tools/world", "tools/data/schema.py", "mempo/prompts.py"])
        return task | {"chunk_tokens": int(config.agent.max_observation_tokens), "code": code}
    files = [path for key in ("input", "validation_input", "aliases") for path in _paths(task.get(key))]
    hashes = [file_sha256(path) for path in files]
    for key in ("input", "validation_input", "aliases"):
        task[key] = [path.name for path in _paths(task.get(key))]
    return task | {"files": hashes, "code": source_hash(["tools/data"])}


def prepare_data(config: DictConfig, say: Say) -> DataFolder:
    """Builds, or finds in the cache, the data of a config.

    Raises:
        RunError: the input cannot be converted; the message is the converter's.
    """
    if config.task.name == "parquet":
        return DataFolder(Path(config.task.data_dir))

    def build(folder: Path) -> None:
        if config.task.name == "world":
            from tools.run.world import build_world

            build_world(config, folder, say)
        elif config.task.name == "reading":
            from tools.run.world import build_reading

            build_reading(config, folder, say)
        else:
            _convert(config, folder, say)

    folder = DataFolder(cached(Path(config.run.cache) / "data", data_inputs(config), build, say))
    if missing := folder.missing(config):
        raise RunError(f"{folder.path} lacks {', '.join(missing)}: remove it and start again")
    return folder


def _convert(config: DictConfig, folder: Path, say: Say) -> None:
    from tools.data.convert import ConvertSettings, convert
    from tools.data.records import DataError
    from tools.data.schema import SchemaError

    task = config.task
    aliases = _paths(task.aliases)
    try:
        manifest = convert(
            ConvertSettings(
                dataset=str(task.dataset),
                inputs=_paths(task.input),
                out=folder,
                validation_inputs=_paths(task.validation_input),
                validation_share=float(task.validation_share),
                objectives=int(task.objectives),
                seed=int(task.seed),
                strict=bool(task.strict),
                aliases=aliases[0] if aliases else None,
            )
        )
    except (DataError, SchemaError) as error:
        raise RunError(str(error)) from error
    say(f"converted: {json.dumps(manifest['counts'])}")
    for problem in manifest["problems"][:5]:
        say(f"left out: {problem}")


def _paths(value: Any) -> list[Path]:
    if not value:
        return []
    return [
        Path(str(item))
        for item in (value if OmegaConf.is_list(value) or isinstance(value, list) else [value])
    ]
