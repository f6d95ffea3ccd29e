"""One run folder, one config: what may change between two starts of a run, and what may not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tools.run.errors import RunError
from tools.run.files import write_json

NAME = "fingerprint.json"
# What a run would write over, in a folder that is none of its own.
WRITTEN = (
    "checkpoints",
    "config.yaml",
    "environment.json",
    "eval",
    "metrics.jsonl",
    "report.html",
    "stages",
    "summary.json",
    "trajectories",
)

# What may change when a run is resumed: it changes neither the data, nor the model, nor the update. More steps go on
# from the last checkpoint.
FREE = (
    "trainer.total_training_steps",
    "trainer.total_epochs",
    "trainer.save_freq",
    "trainer.logger",
    "trainer.max_actor_ckpt_to_keep",
    "search.url",
    "search.port",
    "search.token_env",
    "search.deadline_s",
    "search.ready_deadline_s",
    "run.sample_trajectories",
    "run.weight_sync_deadline_s",
    "run.pool_processes",
    "run.eval_concurrency",
    "run.dir",
    "run.cache",
    "run.path",
    "trainer.default_local_dir",
    "ray_kwargs",
)
# Groups of keys that count only where their `enable` is true, in either of the two configs: switched off they change
# nothing, and what a recipe writes there may change between versions.
SWITCHED = ("algorithm.filter_groups",)
MISSING = "(not set)"


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level of dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def fingerprint(config: DictConfig) -> dict[str, Any]:
    """The keys of a config that must stay the same for one run."""
    flat = flatten(OmegaConf.to_container(config, resolve=True))  # type: ignore[arg-type]
    return {key: value for key, value in sorted(flat.items()) if not _lies_in(key, FREE)}


def check_same(folder: Path, config: DictConfig, contents: Mapping[str, Any] | None = None) -> None:
    """Compares a config with the one that its run folder was started with; writes it down on the first start.

    Args:
        contents: what the config's files hold, by a name that reads like a key; compared as well.

    Raises:
        RunError: they differ; names each key with its old and its new value, and the remedies.
    """
    file = folder / NAME
    now = json.loads(json.dumps(fingerprint(config) | dict(contents or {}), default=str))
    if not file.exists():
        foreign = [name for name in WRITTEN if (folder / name).exists()]
        if foreign:
            raise RunError(
                f"{folder / foreign[0]} is there, and {NAME} is not: the folder is of something else; choose another run.name "
                "or run.dir"
            )
        folder.mkdir(parents=True, exist_ok=True)
        write_json(file, now)
        return
    before = json.loads(file.read_text(encoding="utf-8"))
    off = [group for group in SWITCHED if not _enabled(group, before) and not _enabled(group, now)]
    changed = [
        key
        for key in sorted({*before, *now})
        if before.get(key, MISSING) != now.get(key, MISSING) and not _lies_in(key, off)
    ]
    if changed:
        lines = "\n".join(
            f"  {key}: {before.get(key, MISSING)} -> {now.get(key, MISSING)}" for key in changed
        )
        raise RunError(
            f"the run {folder.name!r} was started with another config:\n{lines}\n"
            f"Give this one a name of its own (run.name=...), take the change back, or remove {folder} to begin anew."
        )


def _enabled(group: str, flat: Mapping[str, Any]) -> bool:
    return bool(flat.get(f"{group}.enable"))


def _lies_in(key: str, names: Iterable[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in names)
