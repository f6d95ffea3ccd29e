"""A real run, evaluations and all, with a model that ends its turns at either of two ids, as Qwen's instruct models may."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="the run needs the cpu or gpu extra")

from tests.tools.run.two_ends import SECOND, build
from tests.verl_patches.running import kill_family
from tests.verl_patches.tiny import environment, tiny_tokenizer

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

SETTINGS = (
    "run.cold_start=none",
    "run.eval_questions=4",
    "run.sample_trajectories=1000",
    "agent.context=history",
    "agent.max_turns=3",
    "agent.max_response_tokens=64",
    "agent.max_observation_tokens=32",
    "agent.max_context_tokens=400",
    "search.topk=1",
    "data.train_batch_size=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=2048",
    "actor_rollout_ref.actor.optim.lr=1e-5",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.rollout.max_num_seqs=32",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=2048",
    "trainer.total_training_steps=2",
    "trainer.save_freq=2",
)


def run_whole(root: Path, scratch: Path) -> tuple[int, str]:
    command = [sys.executable, "-P", "-m", "tools.run", "cpu", "task=parquet", f"task.data_dir={root}/data"]
    places = [f"actor_rollout_ref.model.path={root}/model", f"run.dir={root}/runs", f"run.cache={root}/cache"]
    log = root / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *places, "run.name=x", *SETTINGS],
            cwd=root,
            env=environment(scratch),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(850)
        finally:
            kill_family(process, scratch)
    return code, log.read_text(errors="replace")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_no_session_fails_where_a_turn_ends_at_the_second_id(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    build(tmp_path)
    scratch = tmp_path_factory.mktemp("s")
    code, log = run_whole(tmp_path, scratch)
    assert code == 0, log[-6000:]
    run = tmp_path / "runs" / "x"
    tokenizer = tiny_tokenizer()
    second, template = tokenizer.convert_tokens_to_ids(SECOND), tokenizer.eos_token_id

    steps = lines(run / "metrics.jsonl")
    assert [step["failures/total"] for step in steps] == [0, 0]
    trained = [line["trajectory"] for n in (1, 2) for line in lines(run / "trajectories" / f"step_{n}.jsonl")]
    assert len(trained) == 2 * 8 * 4
    turns = [turn for trajectory in trained for turn in trajectory["turns"]]
    last = [turn["response_ids"][-1] for turn in turns if turn["finish"] == "stop"]
    assert last.count(second) > 20
    assert last.count(template) > 5
    assert set(last) == {second, template}
    searched = [turn for turn in turns if turn["observation_ids"] and turn["response_ids"][-1] == second]
    assert searched
    assert all(turn["observation_ids"][0] == template for turn in searched)

    for evaluation in ("before", "after_step_2"):
        for mode in ("history", "window1"):
            folder = run / "eval" / evaluation / mode
            assert json.loads((folder / "summary.json").read_text())["failures"] == {}
            asked = [turn for line in lines(folder / "samples.jsonl") for turn in line["trajectory"]["turns"]]
            assert second in {turn["response_ids"][-1] for turn in asked}, "and the evaluation met it"
    saved = run / "checkpoints" / "global_step_2" / "actor" / "huggingface" / "generation_config.json"
    assert set(json.loads(saved.read_text())["eos_token_id"]) == {second, template}, (
        "what was trained says so too"
    )
