"""From a config's name and overrides to one composed config: our recipes over verl's ppo_trainer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from tools.run.errors import RunError
from tools.run.places import CONFIGS, NOT_RECIPES, ROOT, recipes

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
    """Composes a recipe with command line overrides, and fills in the run's name and folder.

    Raises:
        RunError: with Hydra's message, if the recipe or an override cannot be composed.
    """
    path = (
        ["pkg://verl.trainer.config"]
        if recipe.folder == CONFIGS
        else [f"file://{CONFIGS}", "pkg://verl.trainer.config"]
    )
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(recipe.folder), version_base=None):
            config = compose(recipe.name, overrides=[*overrides, f"hydra.searchpath=[{','.join(path)}]"])
        OmegaConf.to_container(config, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise RunError(f"config {recipe.name}: {_first_lines(error)}") from error
    if "run" not in config or "task" not in config:
        raise RunError(
            f"config {recipe.name}: the keys `run` and `task` are missing; list `ppo_trainer`, `mempo_base` and a `task` "
            "under its defaults, as configs/cpu.yaml does"
        )
    with open_dict(config):
        _fill_in(config, recipe, root)
    return config


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
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", config.run.name):
        raise RunError(f"run.name is {config.run.name!r}: letters, digits, dots, dashes and underscores only")
    config.run.dir = str(root / str(config.run.dir))  # an absolute one stays
    config.run.cache = str(root / str(config.run.cache))
    config.run.path = str(Path(config.run.dir) / config.run.name)
    config.trainer.project_name = "mempo"
    config.trainer.experiment_name = config.run.name
    config.trainer.default_local_dir = str(Path(config.run.path) / "checkpoints")


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:4])
