"""Small experiments whose runs are `fake_run`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from tests.tools.experiment import fake_run
from tools.experiment.plan import RUNS, ExperimentPlan, PlannedRun
from tools.experiment.protocol import SHARED, Protocol, protocol_of
from tools.experiment.runner import Experiment

RAW: dict[str, Any] = {
    "name": "small",
    "recipe": "cpu",
    "arms": {"grpo": ["memory.weight=0"], "ours": []},
    "control": "grpo",
    "seeds": [1, 2],
    "primary": "eval.after.window1.em",
    "margin": 0.05,
}


def small(**changes: Any) -> Protocol:
    return protocol_of(RAW | changes, "test")


def plan_of(folder: Path, protocol: Protocol | None = None, **shared: str) -> ExperimentPlan:
    """A plan without configs; `shared` replaces keys of what the arms of a seed have in common."""
    protocol = protocol or small()
    runs = [
        PlannedRun(seed, arm, [str(seed), arm], {name: f"{name}{seed}" for name in SHARED} | shared)
        for seed, arm in protocol.runs()
    ]
    configs: dict[str, dict[str, Any]] = {arm: {"arm": arm} for arm in protocol.arms}
    changes: dict[str, dict[str, list[Any]]] = {
        arm: {} if arm == protocol.control else {"memory.weight": [0, 0.3]} for arm in protocol.arms
    }
    return ExperimentPlan(protocol, folder, runs, configs, changes, [], OmegaConf.create())


def experiment(plan: ExperimentPlan, said: list[str] | None = None) -> Experiment:
    """With `fake_run` as a process of its own."""

    def command(run: PlannedRun) -> list[str]:
        return [sys.executable, "-I", "-S", fake_run.__file__, str(plan.folder / RUNS / run.name), *run.words]

    return Experiment(plan, (said if said is not None else []).append, command)


def behave(folder: Path, **by_run: list[str]) -> None:
    """What the next starts of runs do; `seed1_ours` stands for `seed1-ours`."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {name.replace("_", "-"): what for name, what in by_run.items()}
    (folder / fake_run.BEHAVIOUR).write_text(json.dumps(content), encoding="utf-8")


def started(folder: Path) -> list[str]:
    return (folder / fake_run.STARTED).read_text(encoding="utf-8").splitlines()


def without_times(value: Any) -> Any:
    """Results as they must be equal."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key != "timing"}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def results(folder: Path) -> Any:
    return without_times(json.loads((folder / "results.json").read_text(encoding="utf-8")))
