"""The runs of an experiment: their configs, what stands in their way, and what the arms of a seed have in common."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tools.experiment.errors import ExperimentError
from tools.experiment.protocol import SHARED, Protocol, mode_name
from tools.run.errors import RunError
from tools.run.fingerprint import MISSING, fingerprint, flatten
from tools.run.stages import content_key

RUNS = "runs"  # below the experiment's folder
STEPS = "trainer.total_training_steps"
# What decides which questions training asks, and when.
QUESTIONS = ("data.shuffle", "data.train_batch_size", "algorithm.filter_groups", STEPS)


@dataclass(frozen=True)
class PlannedRun:
    """One run.

    Attributes:
        words: what `tools.run` is told: the recipe and all overrides.
        shared: for each of `SHARED`, a key of what decides it.
    """

    seed: int
    arm: str
    words: list[str]
    shared: dict[str, str]

    @property
    def name(self) -> str:
        return run_name(self.seed, self.arm)


@dataclass(frozen=True)
class ExperimentPlan:
    """All runs in order.

    Attributes:
        configs: for each arm its resolved config at its first seed, as dotted keys.
        changes: for each arm the keys whose values differ from the control's of the same seed: [control, arm].
        problems: one line each; with any, nothing may start.
        first: the config of the first run.
    """

    protocol: Protocol
    folder: Path
    runs: list[PlannedRun]
    configs: dict[str, dict[str, Any]]
    changes: dict[str, dict[str, list[Any]]]
    problems: list[str]
    first: DictConfig

    def text(self) -> str:
        """The plan as lines."""
        protocol = self.protocol
        steps = self.configs[protocol.control].get(STEPS)
        lines = [
            f"  experiment  {protocol.name}, protocol {protocol.sha256}",
            f"  folder      {self.folder}",
            f"  runs        {len(self.runs)}: recipe {protocol.recipe}, {steps} steps; all arms of a seed before the next seed",
            f"  primary     {protocol.primary}, margin {protocol.margin:g}, against {protocol.control}",
        ]
        for arm in protocol.arms:
            seeds = ", ".join(map(str, protocol.seeds_of(arm)))
            changes = "; ".join(lines_of(self.changes[arm]))
            what = "the control" if arm == protocol.control else changes or "no key differs from the control"
            lines.append(f"  arm         {arm} (seeds {seeds}): {what}")
        return "\n".join(lines)

    def not_ready(self) -> list[str]:
        """What keeps this machine from running the configs now."""
        from tools.run.plan import ready

        return ready(self.first)


def run_name(seed: int, arm: str) -> str:
    """Its `run.name`, and the name of its record."""
    return f"seed{seed}-{arm}"


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Keys whose values differ: [before, now]."""
    return {
        key: [before.get(key, MISSING), now.get(key, MISSING)]
        for key in sorted({*before, *now})
        if before.get(key, MISSING) != now.get(key, MISSING)
    }


def lines_of(changes: Mapping[str, list[Any]]) -> list[str]:
    """`key: before -> now` for each."""
    return [f"{key}: {before} -> {now}" for key, (before, now) in changes.items()]


def make_plan(protocol: Protocol, source: Path, folder: Path) -> ExperimentPlan:
    """Composes and checks the config of every run; starts nothing.

    Args:
        source: the protocol's file; a recipe's path is relative to it.
        folder: the experiment's, absolute.

    Raises:
        ExperimentError: a config cannot be composed.
    """
    recipe = protocol.recipe
    if recipe.endswith((".yaml", ".yml")):
        recipe = str(source.absolute().parent / recipe)
    found: dict[tuple[str, str], list[int]] = defaultdict(list)  # (arm, problem): seeds
    runs: list[PlannedRun] = []
    configs: dict[str, dict[str, Any]] = {}
    changes: dict[str, dict[str, list[Any]]] = {}
    controls: dict[int, dict[str, Any]] = {}  # by seed
    values: dict[tuple[int, str], dict[str, dict[str, Any]]] = {}
    first: DictConfig | None = None
    for seed, arm in protocol.runs():
        overrides = [*protocol.overrides, *protocol.arms[arm], f"seed={seed}"]
        overrides += [f"run.name={run_name(seed, arm)}", f"run.dir='{folder / RUNS}'"]
        config = _compose(recipe, overrides, arm)
        problems = _problems(protocol, config)
        first = config if first is None else first
        if not problems:
            values[seed, arm] = _shared(config)
            problems += _differing(protocol, values.get((seed, protocol.control)), values[seed, arm])
        for problem in problems:
            found[arm, problem].append(seed)
        resolved = _resolved(config)
        if arm == protocol.control:
            controls[seed] = resolved
        if arm not in configs:
            configs[arm], changes[arm] = resolved, changed(controls[seed], resolved)
        keys = {name: content_key(value) for name, value in values.get((seed, arm), {}).items()}
        runs.append(PlannedRun(seed, arm, [recipe, *overrides], keys))
    told = [
        f"arm {arm}, seed(s) {', '.join(map(str, seeds))}: {text}" for (arm, text), seeds in found.items()
    ]
    assert first is not None  # a protocol has two arms and a seed
    return ExperimentPlan(protocol, folder, runs, configs, changes, told, first)


def _compose(recipe: str, overrides: list[str], arm: str) -> DictConfig:
    from tools.run.machine import environment_for
    from tools.run.settings import find_recipe, load_config

    try:
        config = load_config(find_recipe(recipe), overrides)
    except RunError as error:
        raise ExperimentError(f"arm {arm}: {error}") from error
    # verl picks its platform when it is first imported, and the checks import parts of it.
    os.environ.update(environment_for(str(config.trainer.device)))
    return config


def _problems(protocol: Protocol, config: DictConfig) -> list[str]:
    from tools.run.evaluation import contexts
    from tools.run.plan import check

    problems = check(config)
    evaluated = contexts(config) if int(config.run.eval_questions) > 0 else ()
    strange = [
        context
        for context in protocol.contexts
        if mode_name(context) not in {mode_name(each) for each in evaluated}
    ]
    if strange:
        problems.append(
            f"contexts: a run of this config is evaluated in {', '.join(evaluated) or 'no context'}, not in {', '.join(strange)}"
        )
    return problems


def _shared(config: DictConfig) -> dict[str, dict[str, Any]]:
    """For each of `SHARED`, all that decides it."""
    from tools.run.data import data_inputs
    from tools.run.evaluation import evaluation_settings
    from tools.run.model import model_inputs

    data = data_inputs(config)
    resolved = _resolved(config)
    questions = {
        key: value for key, value in resolved.items() if any(f"{key}.".startswith(f"{q}.") for q in QUESTIONS)
    }
    return {
        "data": flatten(data),
        "model": flatten(model_inputs(config, data)),
        "questions": questions,
        "evaluation": evaluation_settings(config),
    }


def _differing(
    protocol: Protocol, control: Mapping[str, dict[str, Any]] | None, arm: Mapping[str, dict[str, Any]]
) -> list[str]:
    """One line for each of `SHARED` that is not the control's and may not differ."""
    if control is None:
        return []
    problems = []
    for name in SHARED:
        lines = lines_of(changed(control[name], arm[name]))
        if lines and name not in protocol.may_differ:
            problems.append(
                f"changes the {name} of its seed ({'; '.join(lines)}), so that it is not paired with {protocol.control}: "
                f"give both the same, or write may_differ: [{name}]"
            )
    return problems


def _resolved(config: DictConfig) -> dict[str, Any]:
    """A config as dotted keys, less those that are of the run and not of its arm."""
    flat = fingerprint(config) | {STEPS: OmegaConf.select(config, STEPS)}
    return {key: value for key, value in sorted(flat.items()) if value != config.run.name}
