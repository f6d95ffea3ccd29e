"""The model stage: which model RL starts from, and how it is made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tools.run.cache import cached, source_hash
from tools.run.data import DataFolder
from tools.run.errors import RunError
from tools.run.machine import environment_for
from tools.run.stages import Say

COLD_STARTS = ("none", "world", "reading", "verl")
BUILT = ("world", "reading")  # cold starts that make the model too, unless its path is given
MODEL_CODE = [
    "tools/world",
    "tools/sft",
    "tools/search/analyzer.py",
    "tools/search/bm25.py",
    "tools/search/index.py",
    "tools/search/titles.py",
    "mempo/prompts.py",
    "mempo/probe.py",
    "mempo/tokens.py",
]
_PATH = "actor_rollout_ref.model.path"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TRUE = ("1", "ON", "YES", "TRUE")  # as huggingface_hub reads its variables
READING_CODE = ["mempo/agents"]  # the demonstrations are what the agent itself does


def check_model(config: DictConfig) -> list[str]:
    """Problems of the model that RL starts from, as far as this machine's files tell; asks no hub."""
    path = config.actor_rollout_ref.model.path
    if not path:
        if config.run.cold_start in BUILT:
            return []
        return [f"{_PATH} is not set, and run.cold_start builds no model: give a folder or a hub name"]
    folder = Path(path).expanduser()
    if folder.is_dir() and not (folder / "config.json").is_file():
        return [
            f"{_PATH} is {path!r}, a folder without config.json: give the folder of a model in Hugging Face form"
        ]
    if not folder.exists() and not _HUB_NAME.fullmatch(path):
        return [f"{_PATH} is {path!r}, which does not exist, and a hub name has the form org/name"]
    if folder.is_file():
        return [f"{_PATH} is {path!r}, a file: give the folder of a model"]
    if problem := _refused_generation_config(folder):
        return [f"{_PATH}: {problem}"]
    return missing_from_hub(config) if str(config.trainer.device) == "cpu" else []


def _refused_generation_config(folder: Path) -> str | None:
    """What would end the run at its first checkpoint, where verl writes the file anew."""
    from tools.release.errors import ReleaseError
    from tools.release.generation import read_generation_config

    try:
        _, left_out = read_generation_config(folder)
    except ReleaseError as error:
        return str(error)
    if not left_out:
        return None
    return (
        f"{folder / 'generation_config.json'} has {', '.join(left_out)} beside do_sample=false, which transformers refuses to "
        "write into a checkpoint: set do_sample to true there, or take them out"
    )


def missing_from_hub(config: DictConfig) -> list[str]:
    """The same of a hub name on a machine that may not ask the hub (HF_HUB_OFFLINE, which CPU runs set)."""
    from huggingface_hub import try_to_load_from_cache

    path = config.actor_rollout_ref.model.path
    offline = environment_for(str(config.trainer.device)).get("HF_HUB_OFFLINE", "")
    if not path or offline.upper() not in _TRUE or Path(path).expanduser().is_dir():
        return []
    if isinstance(try_to_load_from_cache(path, "config.json"), str):
        return []
    return [
        f"{_PATH} is {path!r}: no folder here, not in the hub's cache, and HF_HUB_OFFLINE keeps this run from the hub: "
        "give a folder, or download the model first (hf download)"
    ]


def describe_model(config: DictConfig) -> str:
    """One line for the plan."""
    path = config.actor_rollout_ref.model.path
    kind = str(config.run.cold_start)
    if path and kind != "verl":
        return f"{path} as it is"
    if kind == "world":
        return "tiny Qwen trained from scratch on oracle trajectories of the generated world (cached)"
    if kind == "reading":
        return "tiny Qwen trained from scratch on oracle readings of the generated world (cached)"
    if kind == "verl":
        return f"{path} after verl's SFT trainer on the task's oracle trajectories (cached)"
    return "not set"


def model_inputs(config: DictConfig, data: dict[str, Any]) -> dict[str, Any]:
    """All that decides what the model is; `data` are the inputs of the data stage."""
    path = config.actor_rollout_ref.model.path
    kind = str(config.run.cold_start)
    if kind == "none" or (kind in BUILT and path):
        return {"path": str(path)}
    settings: dict[str, Any] = {
        "cold_start": kind,
        "path": path,
        "seed": int(config.seed),
        "prompt": config.agent.prompt,
    }
    settings["sft"] = OmegaConf.to_container(config.run.sft, resolve=True)
    if kind == "verl":
        settings |= {"data": data, "window": int(config.agent.max_context_tokens)}
    elif kind == "reading":
        settings |= {"task": data, "agent": OmegaConf.to_container(config.agent, resolve=True)}
    else:
        settings["topk"] = int(config.search.topk)
    code = MODEL_CODE + (READING_CODE if kind == "reading" else [])
    return settings | {"code": source_hash(code)}


def prepare_model(config: DictConfig, data: DataFolder, inputs: dict[str, Any], say: Say) -> Path:
    """The folder of the model that RL starts from; built once per content, or fetched if it is a hub name.

    Raises:
        RunError: the cold start failed; the message says where its log is.
    """
    if set(inputs) == {"path"}:
        return _local(str(inputs["path"]), say)

    def build(folder: Path) -> None:
        if config.run.cold_start == "world":
            from tools.run.world import build_model

            build_model(config, folder, say)
        elif config.run.cold_start == "reading":
            from tools.run.world import build_reader

            build_reader(config, folder, say)
        else:
            from tools.run.sft import build_with_verl

            build_with_verl(config, data, folder, say)

    return cached(Path(config.run.cache) / "models", inputs, build, say) / "model"


def _local(name: str, say: Say) -> Path:
    given = Path(name).expanduser()
    if given.is_dir():
        return given.absolute()
    from huggingface_hub import snapshot_download

    say(f"{name} is no folder here: asking the Hugging Face hub")
    try:
        return Path(snapshot_download(name))
    except Exception as error:  # many kinds: no network, no such model, no access
        raise RunError(
            f"actor_rollout_ref.model.path is {name!r}: neither a folder here nor to be had from the hub ({error})"
        ) from error
