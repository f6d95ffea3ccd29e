"""Values that mean nothing for a key, made from what configs/ writes there and not from the key's rule."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from tests.conftest import ROOT
from tools.run.fingerprint import flatten

OURS = ("seed", "task", "agent", "memory", "search", "run")

# By kind: texts as on the command line. The null gives way to some text where null is a value.
NONSENSE = {
    "flag": ("abc", "null", "2", "nan", "[true]"),
    "whole": ("abc", "null", "-7", "2.5", "nan", "[1]", "{a: 1}"),
    "number": ("abc", "null", "-7", "nan", "inf", "[0.5]", "{a: 1}"),
    "name": ("nonsense", "null", "7", "nan", "[x]", "{a: 1}"),
    "text": ("' '", "true", "nan", "[x]", "{a: 1}"),
    "list": ("nan", "true", "[]", "[{a: 1}]", "7"),
    "filled in": ("x", "7", "nan", "[x]", "{a: 1}"),
}
# Where the values in configs/ do not tell: nulls, whole values of what may be a fraction, and text that is free.
KINDS = {
    "task.input": "list",
    "task.validation_input": "list",
    "task.aliases": "text",
    "task.data_dir": "text",
    "task.train": "whole",
    "task.validation": "whole",
    "search.url": "text",
    "search.token_env": "text",
    "search.deadline_s": "number",
    "search.ready_deadline_s": "number",
    "run.name": "text",
    "run.dir": "text",
    "run.cache": "text",
    "run.path": "filled in",
    "run.weight_sync_deadline_s": "number",
    "run.sft.steps": "whole",
    "run.sft.drill_steps": "whole",
    "data.train_files": "filled in",
    "data.val_files": "filled in",
    "actor_rollout_ref.actor.entropy_coeff": "number",
    "actor_rollout_ref.model.path": "text",
    # Named in no recipe, but read by our checks.
    "data.gen_batch_size": "whole",
    "data.train_max_samples": "whole",
    "actor_rollout_ref.actor.checkpoint.load_contents": "list",
    "trainer.use_v1": "flag",
    "trainer.critic_warmup": "whole",
    "trainer.v1.trainer_mode": "name",
    "trainer.v1.separate_async.parameter_sync_step": "whole",
    "transfer_queue.backend.storage_backend": "name",
    "reward.reward_model.enable": "flag",
    "distillation.enabled": "flag",
}
NULL_IS_A_VALUE = {
    "task.train",
    "task.validation",
    "agent.verifier",
    "run.sft.steps",
    "run.sft.drill_steps",
    "data.gen_batch_size",
    "trainer.max_actor_ckpt_to_keep",
    "actor_rollout_ref.actor.optim.lr_warmup_steps",
    "actor_rollout_ref.model.override_config.attn_implementation",
    "actor_rollout_ref.rollout.max_model_len",
    "ray_kwargs.ray_init.include_dashboard",
    "ray_kwargs.ray_init.num_cpus",
    "ray_kwargs.ray_init.num_gpus",
}


@cache
def written() -> dict[tuple[str, str], list[Any]]:
    """(task, key) → the values that configs/ writes there; the task is that of the keys under `task.*`, else empty."""
    found: dict[tuple[str, str], list[Any]] = {}
    for path in sorted((ROOT / "configs").rglob("*.yaml")):
        if path.parent.name == "experiments":  # protocols: recipes and overrides by name, no keys of a config
            continue
        tree: Any = OmegaConf.to_container(OmegaConf.load(path))
        tree.pop("defaults", None)
        task = path.stem if path.parent.name == "task" else ""
        for key, value in flatten(tree, "task." if task else "").items():
            found.setdefault((task, key), []).append(value)
    for key in KINDS:
        if not any(key == other for _, other in found):
            found["", key] = []
    return found


def kind(key: str, values: list[Any]) -> str:
    """Which row of NONSENSE a key takes."""
    if key in KINDS:
        return KINDS[key]
    said = [value for value in values if value is not None]
    taken = [value for value in said if str(value).startswith("${")]
    if taken:
        return "whole"  # a seed, a length or a number of GPUs
    for type_, name in ((bool, "flag"), (str, "name"), (list, "list")):
        if said and all(isinstance(value, type_) for value in said):
            return name
    assert said and all(isinstance(value, int | float) for value in said), f"what is {key}? Say so in KINDS"
    return "whole" if all(isinstance(value, int) for value in said) else "number"


def nonsense(key: str, values: list[Any]) -> tuple[str, ...]:
    """At least five texts that are no value of `key`."""
    texts = NONSENSE[kind(key, values)]
    return tuple("so-so" if text == "null" and key in NULL_IS_A_VALUE else text for text in texts)


def data_folder(path: Path) -> Path:
    """A folder that passes for prepared data, as far as the checks of a config look."""
    for name in ("train.parquet", "validation.parquet", "corpus.jsonl"):
        (path / name).touch()
    return path
