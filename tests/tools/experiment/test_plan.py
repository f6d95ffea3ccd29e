"""Every run's config is checked before the first starts, and arms that are not paired are refused by name."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.tools.experiment.support import behave, experiment, plan_of, small
from tools.experiment import plan as plan_module
from tools.experiment.cli import app
from tools.experiment.errors import ExperimentError
from tools.experiment.plan import ExperimentPlan, make_plan
from tools.experiment.protocol import SHARED
from tools.run.places import CONFIGS, recipes

FOLDER = Path("/nowhere/x")  # nothing is written to it


@pytest.fixture(scope="module", autouse=True)
def composed_once() -> Iterator[None]:
    """Composing takes half a second, and many tests here have a config in common."""
    with pytest.MonkeyPatch.context() as patch:
        original = plan_module._compose
        compose = functools.cache(lambda recipe, words, arm: original(recipe, list(words), arm))
        patch.setattr(plan_module, "_compose", lambda recipe, words, arm: compose(recipe, tuple(words), arm))
        yield


def plan(source: Path = FOLDER, **changes: Any) -> ExperimentPlan:
    return make_plan(small(**{"seeds": [3]} | changes), source / "p.yaml", FOLDER)


def test_a_run_is_the_ordinary_pipeline_below_the_experiments_folder() -> None:
    arms = {"grpo": [], "ours": ["memory.gate=on_success"]}
    found = plan(arms=arms)
    assert found.problems == []
    assert [run.name for run in found.runs] == ["seed3-grpo", "seed3-ours"]
    assert found.runs[1].words == [
        "cpu",
        "memory.gate=on_success",
        "seed=3",
        "run.name=seed3-ours",
        "run.dir='/nowhere/x/runs'",
    ]
    assert found.runs[0].shared == found.runs[1].shared
    assert found.changes == {"grpo": {}, "ours": {"memory.gate": ["always", "on_success"]}}
    assert found.configs["ours"]["trainer.total_training_steps"] == 32, "steps are frozen too"


def test_what_an_arm_may_not_change_is_named() -> None:
    named = {
        "more": (["task.train=100"], "data", "train: None -> 100"),
        "colder": (["run.sft.steps=5"], "model", "sft.steps: None -> 5"),
        "sorted": (["data.shuffle=false"], "questions", "data.shuffle: True -> False"),
        "shorter": (
            ["trainer.total_training_steps=5"],
            "questions",
            "trainer.total_training_steps: 32 -> 5",
        ),
        "hasty": (["agent.max_turns=3"], "evaluation", "agent.max_turns: 5 -> 3"),
    }
    # Trained in another context, an arm is evaluated as the others are.
    arms = {"grpo": [], "history": ["agent.context=history"]} | {
        arm: words for arm, (words, _, _) in named.items()
    }
    found = plan(arms=arms)
    assert len(found.problems) == len(named), found.problems
    for problem, (arm, (_, name, key)) in zip(found.problems, named.items(), strict=True):
        assert problem.startswith(f"arm {arm}, seed(s) 3: changes the {name} of its seed ({key}), ")
        assert f"may_differ: [{name}]" in problem
    allowed = plan(arms=arms, may_differ=list(SHARED))
    assert allowed.problems == []
    shared = {run.arm: run.shared for run in allowed.runs}
    assert shared["history"] == shared["grpo"]
    for arm, (_, name, _) in named.items():
        assert [key for key in SHARED if shared[arm][key] != shared["grpo"][key]] == [name]


def test_problems_of_a_config_are_told_with_their_arm() -> None:
    found = plan(arms={"grpo": [], "ours": ["data.train_batch_size=17"]})
    assert len(found.problems) == 1
    assert "arm ours, seed(s) 3: " in found.problems[0] and "data.train_batch_size" in found.problems[0]
    with pytest.raises(ExperimentError, match=r"arm ours: (?s:.*)memory.likelihood is 'most'"):
        plan(arms={"grpo": [], "ours": ["memory.likelihood=most"]})
    with pytest.raises(ExperimentError, match="arm ours: config cpu: .*memory.wait"):
        plan(arms={"grpo": [], "ours": ["memory.wait=1"]})
    with pytest.raises(ExperimentError, match="no config 'cpuu'"):
        plan(recipe="cpuu")
    found = plan(arms={"grpo": [], "ours": ["run.eval_questions=0"]})
    assert "evaluated in no context, not in history, window:1" in found.problems[0]


def test_a_recipe_of_ones_own_lies_beside_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("defaults: [cpu, _self_]\nmemory: {weight: 0.7}\n")
    assert plan(tmp_path, recipe="mine.yaml").changes["ours"] == {"memory.weight": [0, 0.7]}


def test_the_example_passes_its_dry_run_and_is_no_recipe(tmp_path: Path) -> None:
    example = (CONFIGS / "experiments" / "memory_weight.yaml").read_text()
    some = tmp_path / "some.yaml"
    some.write_text(example.replace("seeds: [1, 2, 3, 4, 5, 6, 7, 8]", "seeds: [1]"))  # the others are alike
    done = CliRunner().invoke(app, ["run", str(some), "--dir", str(tmp_path / "x"), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "every run's config is complete and consistent; nothing was started" in done.output
    assert "memory (seeds 1): memory.weight: 0 -> 0.3\n" in done.output
    assert not (tmp_path / "x").exists()
    assert "memory_weight" not in recipes()


def test_faults_end_the_command_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("name: x\n")
    done = CliRunner().invoke(app, ["run", str(tmp_path / "p.yaml")])
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    assert "error: " in done.output and "arms: missing" in done.output


def test_the_report_is_made_of_the_json_alone(tmp_path: Path) -> None:
    behave(tmp_path / "x", seed2_ours=["crash"])
    experiment(plan_of(tmp_path / "x")).run()
    (tmp_path / "x" / "results.json").rename(tmp_path / "x.json")
    words = [str(tmp_path / "x.json"), "--json", "--out", str(tmp_path / "page.html")]
    done = CliRunner().invoke(app, ["report", *words])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert set(found) == {"control", "primary", "verdict", "protocol_sha256"}
    assert found["primary"]["ours"]["seeds"] == 1 and found["primary"]["ours"]["ci"] is None
    assert "Every seed" in (tmp_path / "page.html").read_text()
    missing = CliRunner().invoke(app, ["report", str(tmp_path / "x")])
    assert missing.exit_code == 1 and "error: " in missing.output
