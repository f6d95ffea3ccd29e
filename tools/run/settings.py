"""From a config's name and overrides to one composed config: our recipes over verl's ppo_trainer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from tools.run.composing import explained
from tools.run.errors import ConfigFaults, RunError
from tools.run.fingerprint import flatten
from tools.run.places import CONFIGS, NOT_RECIPES, ROOT, recipes
from tools.run.quoting import quoted
from tools.run.schema.faults import faults
from tools.run.schema.our_keys import GROUPS
from tools.run.schema.unknown import known_keys

# What composing raises for what a user wrote; a ValueError is Hydra's for a default or an override of another type, and
# Python's for a file that is not UTF-8.
_COMPOSING = (HydraException, OmegaConfBaseException, YAMLError, ValueError)

# Keys that name a file of the user's: relative ones are meant from where the command was started.
INPUT_KEYS = ("task.input", "task.validation_input", "task.data_dir", "task.aliases")


@dataclass(frozen=True)
class Recipe:
    """Where a config lies: its folder, and its name without `.yaml`."""

    folder: Path
    name: str


def find_recipe(name: str) -> Recipe:
    """A recipe by its name in configs/ or by the path of a YAML file.

    Raises:
        RunError: there is no such recipe; lists those there are.
    """
    if (CONFIGS / f"{name}.yaml").is_file() and name not in NOT_RECIPES:
        return Recipe(CONFIGS, name)
    path = Path(name)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return Recipe(path.absolute().parent, path.stem)
    raise RunError(f"no config {name!r}: name one of {', '.join(recipes())}, or give the path of a YAML file")


def load_config(recipe: Recipe, overrides: list[str], *, root: Path = ROOT) -> DictConfig:
    """Composes a recipe with command line overrides, looks at every value, and fills in the run's name and folder.

    Raises:
        RunError: the recipe or an override cannot be composed.
        ConfigFaults: values that no run can start with; nothing has been computed from them.
    """
    try:
        config = _compose(recipe, overrides)
    except _COMPOSING as error:
        raise RunError(f"config {recipe.name}: {explained(error, lambda: _keys(recipe))}") from error
    if not any(group in config for group in GROUPS):
        raise RunError(
            f"config {recipe.name}: the keys `run` and `task` are missing; list `ppo_trainer`, `mempo_base` and a `task` "
            "under its defaults, as configs/cpu.yaml does"
        )
    if found := faults(config):
        raise ConfigFaults(found)
    try:
        OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise RunError(f"config {recipe.name}: {explained(error, list)} ({error.full_key})") from error
    with open_dict(config):
        _fill_in(config, recipe, root)
    return config


def _compose(recipe: Recipe, overrides: list[str]) -> DictConfig:
    path = (
        ["pkg://verl.trainer.config"]
        if recipe.folder == CONFIGS
        else [f"file://{CONFIGS}", "pkg://verl.trainer.config"]
    )
    searched = f"hydra.searchpath=[{','.join(map(quoted, path))}]"
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(recipe.folder), version_base=None):
        return compose(recipe.name, overrides=[*overrides, searched])


def _keys(recipe: Recipe) -> list[str]:
    """The keys that an override may have meant: those with rules, and, if the recipe can be read at all, all of its own."""
    try:
        tree: Any = OmegaConf.to_container(_compose(recipe, []))
    except _COMPOSING:
        tree = {}
    return sorted({*known_keys(), *flatten(tree)})


def _fill_in(config: DictConfig, recipe: Recipe, root: Path) -> None:
    for key in INPUT_KEYS:
        value = OmegaConf.select(config, key)
        if value is not None:
            many = OmegaConf.is_list(value)
            paths = [str(Path(str(item)).expanduser().absolute()) for item in (value if many else [value])]
            OmegaConf.update(config, key, paths if many else paths[0])
    if config.run.name is None:
        config.run.name = f"{recipe.name}-{config.task.name}"
    config.run.name = str(config.run.name)
    config.run.dir = str(root / config.run.dir)  # an absolute one stays
    config.run.cache = str(root / config.run.cache)
    config.run.path = str(Path(config.run.dir) / config.run.name)
    config.trainer.project_name = "mempo"
    config.trainer.experiment_name = config.run.name
    config.trainer.default_local_dir = str(Path(config.run.path) / "checkpoints")
