"""A release served by a real vLLM: greedy tokens, and questions through the agent beside the training side's answers."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from eval.before_after import evaluate_model
from eval.sample_log import read_folder
from tests.eval.recorded import write_evaluation
from tests.tools.release.runs import AGENT, actor_of
from tests.tools.release.shard_rank import tiny_model
from tests.verl_patches.tiny import build_data
from tools.release.greedy import NEAR_TIE
from tools.release.logits import load_release
from tools.release.model_release import ModelReleaseSettings, make_model_release
from tools.release.questions import compare
from tools.search.client import SearchSettings
from tools.search.process import SearchProcess

QUIET = Console(file=io.StringIO())


def test_answers_are_compared_token_by_token_and_a_difference_has_a_cause(
    released: Path, tmp_path: Path
) -> None:
    model = load_release(released)
    write_evaluation(tmp_path / "before", {0}, count=2)
    before = read_folder(tmp_path / "before")[1]
    now = json.loads(json.dumps(before))
    assert compare(model, now, before, NEAR_TIE["float32"])["same"] == 2
    now["q0"]["trajectory"]["turns"][0]["response_ids"][1] += 1
    now["q1"]["trajectory"]["turns"][0]["observation_ids"][0] += 1
    found = compare(model, now, before, NEAR_TIE["float32"])
    first, second = found["differences"]
    assert (found["same"], second["cause"]) == (0, "search")
    assert first["cause"] == ("weights" if first["gap"] < 0 else "engine")
    assert (first["id"], first["turn"], first["position"]) == ("q0", 1, 1)
    assert (second["id"], second["turn"]) == ("q1", 2)
    everything_is_near = compare(model, now, before, 1e9)
    assert everything_is_near["causes"] == {"near_tie": 1, "search": 1}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_served_release_answers_as_the_training_side_did(one_rank: Path, tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="vLLM is not installed")
    run = Path(shutil.copytree(one_rank / "tied-fp32", tmp_path / "run"))
    exported = actor_of(run) / "huggingface"
    tiny_model("tied-fp32").save_pretrained(exported)
    data = run / "data"
    build_data(data)
    (data / "corpus.jsonl").write_text(
        json.dumps({"id": "1", "title": "Rome", "text": "King of town."}) + "\n"
    )
    with SearchProcess(data / "corpus.jsonl") as server:
        search = SearchSettings(server.url, topk=2)
        out = run / "eval" / "after_step_2"
        evaluate_model(
            exported,
            data / "validation.parquet",
            ["window:1"],
            search,
            AGENT,
            out,
            device="cpu",
            console=QUIET,
        )
    made = make_model_release(ModelReleaseSettings(run, tmp_path / "out", data=data, device="cpu"), QUIET)
    proof = made["proof"]
    assert proof["logits"]["max_abs_diff"] == proof["logits"]["export"] == 0.0
    assert proof["vllm"]["prompts"] == 2
    assert proof["vllm"]["partings"] == []
    assert proof["questions"]["compared"] == proof["questions"]["same"] == 2
    assert proof["questions"]["reference"] == "after_step_2/window1"
    card = (tmp_path / "out" / "README.md").read_text()
    assert "2 of 2 prompts equal" in card
    assert "| after_step_2/window1 | this model |" in card
