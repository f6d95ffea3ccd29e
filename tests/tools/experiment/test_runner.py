"""Runs are carried out interleaved, each once; what is interrupted or fails anywhere ends with the same results."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tools.experiment import fake_run
from tests.tools.experiment.support import behave, experiment, plan_of, results, small, started
from tools.experiment import runner
from tools.experiment.errors import ExperimentError
from tools.experiment.plan import ExperimentPlan
from tools.run.processes import guarded

DRIVER = """
import sys
from pathlib import Path
from tests.tools.experiment.support import experiment, plan_of
from tools.run.processes import guarded
with guarded():
    experiment(plan_of(Path(sys.argv[1]))).run()
"""


class Killed(BaseException):
    """Ends the experiment at once, as SIGKILL would: nothing of ours handles it."""


def carry_out_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs happen in this process: the points between them are what is tested."""

    def start(command: list[str], **rest: Any) -> int:
        return fake_run.run(Path(command[-3]), int(command[-2]), command[-1])

    monkeypatch.setattr(runner, "start", start)
    monkeypatch.setattr(runner, "wait", lambda code, every, tick: code)
    monkeypatch.setattr(runner, "end_children", lambda spare: None)


def kill_at(monkeypatch: pytest.MonkeyPatch, point: int) -> list[str]:
    """Counts what the runner does to files and processes, and ends it before and after the `point`th such act."""
    passed: list[str] = []

    def guard(name: str, act: Any) -> Any:
        def acting(*arguments: Any, **named: Any) -> Any:
            passed.append(f"before {name}")
            if len(passed) == point:
                raise Killed
            value = act(*arguments, **named)
            passed.append(f"after {name}")
            if len(passed) == point:
                raise Killed
            return value

        return acting

    for name in ("freeze", "start", "collect", "write_results", "write_json"):
        monkeypatch.setattr(runner, name, guard(name, getattr(runner, name)))
    for name in ("copytree", "rmtree"):
        monkeypatch.setattr(runner.shutil, name, guard(name, getattr(shutil, name)))
    return passed


def test_seeds_run_one_after_the_other_and_each_is_evaluated_once_before_training(tmp_path: Path) -> None:
    said: list[str] = []
    protocol = small(arms={"ours": [], "grpo": [], "gain": []}, fewer_seeds={"gain": [2]}, seeds=[2, 1])
    found = experiment(plan_of(tmp_path, protocol), said).run()
    assert started(tmp_path) == [
        "start seed2-grpo",
        "before 2",
        "start seed2-ours",
        "start seed2-gain",
        "start seed1-grpo",
        "before 1",
        "start seed1-ours",
    ]
    assert [run["status"] for run in found["runs"]] == ["done"] * 5
    assert "run 2 of 5: seed 2, arm ours" in said[1] and "min to go" in said[1], said
    assert not list(tmp_path.rglob("before.tmp"))
    for mode in fake_run.MODES:
        assert (tmp_path / "runs" / "seed2-gain" / "eval" / "before" / mode / "samples.jsonl").is_file()


def test_arms_with_other_evaluations_are_evaluated_before_training_themselves(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    plan.runs[1].shared["evaluation"] = "another"
    experiment(plan).run()
    assert started(tmp_path).count("before 1") == 2
    assert started(tmp_path).count("before 2") == 1


def test_the_same_command_starts_nothing_that_is_done(tmp_path: Path) -> None:
    first = experiment(plan_of(tmp_path)).run()
    before = (tmp_path / "results.json").read_bytes()
    assert experiment(plan_of(tmp_path)).run() == first
    assert len([line for line in started(tmp_path) if line.startswith("start")]) == 4
    assert (tmp_path / "results.json").read_bytes() == before


def test_a_failed_run_costs_itself_stays_visible_and_is_tried_again(tmp_path: Path) -> None:
    behave(tmp_path, seed1_ours=["crash", "kill"])
    found = experiment(plan_of(tmp_path)).run()
    failed = [run for run in found["runs"] if run["status"] == "failed"]
    assert [(run["seed"], run["arm"]) for run in failed] == [(1, "ours")]
    assert "error: training ended: out of memory in ./runs/seed1-ours" in failed[0]["causes"][0]
    assert found["primary"]["ours"]["seeds"] == 1
    assert "1 of 4 runs failed" in found["verdict"]
    again = experiment(plan_of(tmp_path)).run()
    causes = next(run for run in again["runs"] if run["status"] == "failed")["causes"]
    assert len(causes) == 2 and "exit code -9" in causes[1]
    last = experiment(plan_of(tmp_path)).run()
    run = last["runs"][1]
    assert run["status"] == "done" and run["causes"] == causes, "what failed before stays visible"
    assert started(tmp_path).count("before 1") == 1


def test_ended_at_any_point_it_resumes_to_the_same_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out_here(monkeypatch)
    protocol = small(seeds=[1])
    experiment(plan_of(tmp_path / "whole", protocol)).run()
    whole = results(tmp_path / "whole")
    point = 0
    acts: list[str] = []
    while True:
        point += 1
        folder = tmp_path / str(point)
        with monkeypatch.context() as patch:
            passed = kill_at(patch, point)
            try:
                experiment(plan_of(folder, protocol)).run()
            except Killed:
                acts.append(passed[-1])
            else:
                break
        experiment(plan_of(folder, protocol)).run()
        assert results(folder) == whole, passed[-1]
        assert started(folder).count("before 1") == 1, passed[-1]
    assert {"before copytree", "after copytree", "after start", "after write_json", "before freeze"} <= set(
        acts
    )
    assert len(acts) > 25


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_for_good_it_takes_its_run_along_and_resumes(
    tmp_path: Path, root: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "killed"
    behave(folder, seed1_ours=["hang"])
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder)], cwd=root, env=os.environ | {"PYTHONPATH": str(root)}
    )
    try:
        deadline = time.monotonic() + 60
        while not (folder / "runs" / "seed1-ours" / "stages" / "evaluate_before.json").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 1
        process.send_signal(number)
        process.wait(30)
        assert psutil.wait_procs(children, timeout=10)[1] == []
    finally:
        process.kill()
    with guarded():
        experiment(plan_of(folder)).run()
    experiment(plan_of(tmp_path / "whole")).run()
    assert results(folder) == results(tmp_path / "whole")


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    import fcntl

    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ExperimentError, match="another process works in"):
            experiment(plan_of(tmp_path)).run()


def begun(folder: Path) -> ExperimentPlan:
    behave(folder, seed1_ours=["crash"])
    plan = plan_of(folder)
    experiment(plan).run()
    return plan


def test_a_changed_protocol_is_refused_with_the_keys(tmp_path: Path) -> None:
    begun(tmp_path)
    protocol = small(margin=0.1, seeds=[1, 2, 3])
    with pytest.raises(
        ExperimentError, match=r"margin: 0\.05 -> 0\.1\n.*seeds: \[1, 2\] -> \[1, 2, 3\]"
    ) as error:
        experiment(plan_of(tmp_path, protocol)).run()
    assert "notes" not in str(error.value) and "--dir" in str(error.value)
    assert not [line for line in started(tmp_path) if "seed3" in line]


def test_a_recipe_that_resolves_to_something_else_is_refused(tmp_path: Path) -> None:
    plan = begun(tmp_path)
    plan.configs["ours"]["memory.weight"] = 0.5
    with pytest.raises(ExperimentError, match=r"arm ours: memory\.weight: \(not set\) -> 0\.5"):
        experiment(plan).run()


def test_a_seed_does_not_go_on_from_another_cold_start(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(ExperimentError, match="seed 1: arm grpo ran with another model .*c0ffee"):
        experiment(plan_of(tmp_path, model="changed")).run()
