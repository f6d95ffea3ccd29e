"""A run takes the evaluation of another arm's cold start for its own, whatever context it trains in."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.eval.support import FakeEndpoint, serving, write_questions
from tests.eval.test_template_options import tokenizer_folder
from tests.eval.test_vllm_server import Served
from tests.tools.experiment.support import plan_of
from tools.experiment.collect import collect, question_scores
from tools.experiment.plan import RUNS
from tools.experiment.runner import Experiment
from tools.run.errors import RunError
from tools.run.evaluation import evaluate
from tools.run.search import SearchAccess
from tools.run.settings import find_recipe, load_config


def test_a_finished_evaluation_is_taken_over_and_another_models_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.before_after.VllmServer", Served)
    model = tokenizer_folder(tmp_path / "fake")
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    questions = write_questions(tmp_path / "validation.parquet", 3)
    plan = plan_of(tmp_path / "x")

    def run(arm: str, context: str) -> dict[str, Any]:
        config = load_config(find_recipe("cpu"), [f"agent.context={context}", "run.eval_questions=3"])
        out = tmp_path / "x" / RUNS / arm / "eval" / "before"
        access = SearchAccess(Served.fake.url)  # of each run another
        return evaluate(config, model, questions, access, out, title=arm, console=Console(file=io.StringIO()))

    with serving(FakeEndpoint()) as Served.fake:
        first = run("seed1-grpo", "window:1")
        assert len(Served.fake.requests) > 6
    stages = tmp_path / "x" / RUNS / "seed1-grpo" / "stages"
    stages.mkdir()
    (stages / "evaluate_before.json").write_text("{}")
    Experiment(plan, lambda line: None)._hand_over(plan.runs[1])
    with serving(FakeEndpoint()) as Served.fake:
        assert run("seed1-ours", "history") == first
        assert Served.fake.requests == []
        (model / "model.safetensors").write_bytes(b"other weights")
        with pytest.raises(RunError, match="begun with other settings"):
            run("seed1-ours", "history")


def test_what_is_kept_of_an_evaluation_is_what_the_harness_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.tools.experiment import fake_run

    folder = tmp_path / RUNS / "seed1-grpo"
    fake_run.run(folder, 1, "grpo")
    monkeypatch.setattr("eval.before_after.VllmServer", Served)
    model = tokenizer_folder(tmp_path / "fake")
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    after = folder / "eval" / "after_step_2"
    shutil.rmtree(after)
    config = load_config(find_recipe("cpu"), ["run.eval_questions=3"])
    with serving(FakeEndpoint()) as Served.fake:
        summaries = evaluate(
            config,
            model,
            write_questions(tmp_path / "validation.parquet", 3),
            SearchAccess(Served.fake.url),
            after,
            title="after",
            console=Console(file=io.StringIO()),
        )
    found = collect(folder, ["history", "window1"])
    for mode, summary in summaries.items():
        assert found["after"][mode]["em"] == pytest.approx(summary["em"], abs=1e-5)
        assert found["after"][mode]["total_tokens"] == pytest.approx(summary["total_tokens"], abs=1e-4)
        assert sorted(question_scores(found["after"][mode])) == [0.0, 1.0, 1.0]
