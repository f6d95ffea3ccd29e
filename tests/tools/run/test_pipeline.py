"""The stages of a run hang together: order, resuming, refusals. Training and evaluation are stand-ins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig
from rich.console import Console

from mempo.task import Reference, Task
from tools.data.schema import QuestionRow, write_rows
from tools.run import pipeline
from tools.run.errors import RunError
from tools.run.pipeline import Pipeline
from tools.run.progress import Teller
from tools.run.settings import find_recipe, load_config


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for split in ("train", "validation"):
        rows = [QuestionRow(Task("q1", "Who wrote X?"), Reference([["Ann"]]), "made", split, 0)]
        write_rows(folder / f"{split}.parquet", rows)
    (folder / "corpus.jsonl").write_text(
        json.dumps({"id": "1", "title": "X", "text": "X was written by Ann."}) + "\n"
    )
    return folder


class Stand:
    """Counts what would have been trained and evaluated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.calls: list[str] = []
        self.url = ""
        self.fail = False
        monkeypatch.setattr(pipeline, "train", self.train)
        monkeypatch.setattr(pipeline, "evaluate", self.evaluate)
        monkeypatch.setattr(pipeline, "paired", lambda before, after, modes: {"history": {"p": 0.5}})

    def train(self, config: DictConfig, folder: Any, access: Any, on_steps: Any) -> int:
        self.calls.append("train")
        self.url = access.url
        if self.fail:
            raise RunError("training ended")
        steps = int(config.trainer.total_training_steps)
        lines = [
            {"step": step, "rows/produced": 4, "trajectory/reward_mean": 0.5} for step in range(1, steps + 1)
        ]
        folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
        model = folder.checkpoints / f"global_step_{steps}" / "actor" / "huggingface"
        model.mkdir(parents=True)
        (model / "model.safetensors").touch()
        (folder.checkpoints / "latest_checkpointed_iteration.txt").write_text(str(steps))
        on_steps(lines)
        return steps

    def evaluate(
        self, config: DictConfig, model: Path, questions: Path, access: Any, out: Path, **rest: Any
    ) -> Any:
        self.calls.append(out.name)
        return {"history": {"em": 0.5, "em_se": 0.1, "f1": 0.5, "n": 1}}


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stand:
    return Stand(monkeypatch, tmp_path)


def run(tmp_path: Path, data: Path, *overrides: str) -> dict[str, Any]:
    model = tmp_path / "model"
    model.mkdir(exist_ok=True)
    fixed = [
        "task=parquet",
        f"task.data_dir={data}",
        "run.cold_start=none",
        f"actor_rollout_ref.model.path={model}",
    ]
    fixed += [
        f"run.dir={tmp_path}/runs",
        f"run.cache={tmp_path}/cache",
        "run.name=x",
        "trainer.total_training_steps=2",
        "data.train_batch_size=1",
        "run.eval_questions=1",
    ]
    config = load_config(find_recipe("cpu"), [*fixed, *overrides])
    return Pipeline(config, Teller(Console(quiet=True))).run()


def test_a_run_goes_through_its_stages_and_leaves_its_files(tmp_path: Path, data: Path, stand: Stand) -> None:
    summary = run(tmp_path, data)
    assert stand.calls == ["before", "train", "after_step_2"]
    assert stand.url.startswith("http://127.0.0.1:")
    assert (summary["steps"], summary["rows"]["produced"]) == (2, 8)
    folder = tmp_path / "runs" / "x"
    for name in (
        "summary.json",
        "environment.json",
        "report.html",
        "fingerprint.json",
        "wall.json",
        "search.log",
    ):
        assert (folder / name).is_file(), name
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["versions"]["verl"] == "0.9.1"


def test_too_few_questions_end_it_before_a_model_is_made(
    tmp_path: Path, data: Path, stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the task's settings do not tell how many there will be, the data stage does."""
    monkeypatch.setattr(pipeline, "prepare_model", lambda *_: pytest.fail("a model is made"))
    with pytest.raises(
        RunError, match=r"train_batch_size is 2, but .*train\.parquet has 1 questions.*; run\.eval_q"
    ):
        run(tmp_path, data, "data.train_batch_size=2", "run.eval_questions=2")
    assert stand.calls == []


def test_the_same_command_skips_what_is_done(tmp_path: Path, data: Path, stand: Stand) -> None:
    run(tmp_path, data)
    run(tmp_path, data)
    assert stand.calls == ["before", "train", "after_step_2"]


def test_after_a_failure_the_same_command_goes_on(tmp_path: Path, data: Path, stand: Stand) -> None:
    stand.fail = True
    with pytest.raises(RunError, match="training ended"):
        run(tmp_path, data)
    stand.fail = False
    run(tmp_path, data)
    assert stand.calls == ["before", "train", "train", "after_step_2"]


def test_more_steps_train_on_and_evaluate_again(tmp_path: Path, data: Path, stand: Stand) -> None:
    run(tmp_path, data)
    run(tmp_path, data, "trainer.total_training_steps=3")
    assert stand.calls == ["before", "train", "after_step_2", "train", "after_step_3"]


def test_another_config_or_other_data_under_the_same_name_are_refused(
    tmp_path: Path, data: Path, stand: Stand
) -> None:
    run(tmp_path, data)
    with pytest.raises(RunError, match=r"memory\.weight: 0\.3 -> 0\.5"):
        run(tmp_path, data, "memory.weight=0.5")
    (data / "corpus.jsonl").write_text(json.dumps({"id": "2", "title": "Y", "text": "Y"}) + "\n")
    with pytest.raises(RunError, match=r"task\.files"):
        run(tmp_path, data)


def test_without_held_out_questions_nothing_is_evaluated(tmp_path: Path, data: Path, stand: Stand) -> None:
    summary = run(tmp_path, data, "run.eval_questions=0")
    assert stand.calls == ["train"]
    assert summary["eval"]["after"] == {}


def test_two_processes_do_not_share_a_run_folder(tmp_path: Path, data: Path, stand: Stand) -> None:
    import fcntl

    folder = tmp_path / "runs" / "x"
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another process"):
            run(tmp_path, data)


def test_a_search_url_that_does_not_answer_stops_the_run(tmp_path: Path, data: Path, stand: Stand) -> None:
    with pytest.raises(RunError, match="does not answer a search"):
        run(tmp_path, data, "search.url=http://127.0.0.1:9")


def test_on_a_cluster_the_server_asks_for_a_token_that_agents_get(
    tmp_path: Path, data: Path, stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tools.run import search

    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    monkeypatch.setenv(search.TOKEN_VARIABLE, "a-token-for-this-test")
    from omegaconf import OmegaConf

    from tools.run.training_process import with_token

    config = load_config(find_recipe("cpu"), [])
    with search.search_access(config, data / "corpus.jsonl", tmp_path / "log", lambda line: None) as access:
        assert access.token == "a-token-for-this-test"
        search.check_server(access)
        with pytest.raises(RunError, match="401"):
            search.check_server(search.SearchAccess(access.url))
        config.search.token_env = access.token_env
        told = with_token(config).ray_kwargs.ray_init.runtime_env.env_vars
    assert OmegaConf.to_container(told) == {search.TOKEN_VARIABLE: "a-token-for-this-test"}
