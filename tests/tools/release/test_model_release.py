"""From shards to a folder that transformers loads as what was trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2ForCausalLM

from eval.agent_file import read_agent_file
from eval.model_files import model_settings
from tests.eval.recorded import write_evaluation
from tests.tools.release.conftest import QUIET
from tests.tools.release.runs import AGENT, actor_of
from tests.tools.release.shard_rank import VARIANTS, tiny_config, tiny_model
from tools.release.check import release_problems
from tools.release.errors import ReleaseError
from tools.release.generation import read_generation_config
from tools.release.model_folder import read_model_config, read_tokenizer
from tools.release.model_release import ModelReleaseSettings, make_model_release

pytestmark = pytest.mark.timeout(300)  # the first test starts two ranks


def make(run: Path, out: Path, **more: object) -> dict[str, object]:
    settings = ModelReleaseSettings(run, out, vllm=False, **more)  # type: ignore[arg-type]
    return make_model_release(settings, QUIET)


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        return model.eval()(torch.arange(3, 43)[None]).logits


def trained_model(variant: str) -> Any:
    """The trained weights in fp32; adapters merged in fp32, and rounded where the release is."""
    kind, dtype = variant.split("-")
    model = tiny_model(variant).float()
    if kind == "lora":
        model = model.merge_and_unload()
    state = model.state_dict()
    if dtype == "bf16":
        state = {name: tensor.bfloat16().float() for name, tensor in state.items()}
    # A new one: casting a model to bf16 rounds its rotary frequencies too, which are no weights.
    fresh = Qwen2ForCausalLM(tiny_config(tied=kind == "tied"))
    fresh.load_state_dict(state)
    return fresh


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("ranks", ["one_rank", "two_ranks"])
def test_the_reloaded_release_has_the_logits_of_the_trained_model(
    request: pytest.FixtureRequest, tmp_path: Path, ranks: str, variant: str
) -> None:
    run = request.getfixturevalue(ranks) / variant
    made = make(run, tmp_path / "out")
    tied, half = variant.startswith("tied"), variant.endswith("bf16")
    dtype = torch.bfloat16 if half else torch.float32
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    assert {parameter.dtype for parameter in loaded.parameters()} == {dtype}
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) == tied
    assert ("lm_head.weight" in load_file(tmp_path / "out" / "model.safetensors")) != tied
    found = logits(AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32))
    assert float((found - logits(trained_model(variant))).abs().max()) <= 1e-5
    assert made["proof"]["logits"]["max_abs_diff"] <= 1e-5  # type: ignore[index]
    assert release_problems(tmp_path / "out") == []


def test_a_generation_config_that_transformers_refuses_is_mended_and_said(
    one_rank: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(one_rank / "tied-fp32", run)
    asked = {"temperature": 0.6, "top_p": 0.9, "eos_token_id": [1, 2], "do_sample": False}
    (actor_of(run) / "huggingface" / "generation_config.json").write_text(json.dumps(asked))
    made = make(run, tmp_path / "out")
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert written["eos_token_id"] == [1, 2] and "temperature" not in written
    assert made["generation_config"] == {"left_out": {"temperature": 0.6, "top_p": 0.9}}
    assert "`temperature` 0.6, `top_p` 0.9" in (tmp_path / "out" / "README.md").read_text()
    assert release_problems(tmp_path / "out") == []


@pytest.mark.parametrize(
    "content", ['{"max_new_tokens": -1}', "not JSON", '{"cache_implementation": "odd"}', "[1]"]
)
def test_a_generation_config_that_cannot_be_mended_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "generation_config.json").write_text(content)
    with pytest.raises(ReleaseError, match="generation_config.json: .*correct the file"):
        read_generation_config(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        '{"model_type": "qwen2", "hidden_size": "abc"}',
        '{"model_type": "qwen2", "rope_parameters": {"rope_type": "yarn"}}',
        '{"model_type": "qwen2", "dtype": "odd"}',
        "[1]",
        "{",
    ],
)
def test_a_model_config_that_transformers_refuses_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ReleaseError, match="config.json"):
        read_model_config(tmp_path)


def test_a_tokenizer_that_transformers_refuses_is_named(tmp_path: Path) -> None:
    for name, content in (("config.json", '{"model_type": "qwen2"}'), ("tokenizer_config.json", "[1]")):
        (tmp_path / name).write_text(content)
    with pytest.raises(ReleaseError, match="tokenizer cannot be loaded"):
        read_tokenizer(tmp_path)


def test_merged_adapters_compute_what_the_adapted_model_does(one_rank: Path, tmp_path: Path) -> None:
    """Up to the order of additions: W x + s B A x against (W + s B A) x, in a model with logits of about 10."""
    make(one_rank / "lora-fp32", tmp_path / "out")
    found = logits(AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32))
    assert float((found - logits(tiny_model("lora-fp32"))).abs().max()) <= 1e-4


def test_a_release_can_be_rounded_once_and_says_by_how_much(one_rank: Path, tmp_path: Path) -> None:
    made = make(one_rank / "untied-fp32", tmp_path / "out", dtype="bf16")
    logits = made["proof"]["logits"]  # type: ignore[index]
    assert logits["max_abs_diff"] <= 1e-5 < logits["rounding"]
    weights = load_file(tmp_path / "out" / "model.safetensors")
    whole = torch.load(one_rank / "untied-fp32" / "whole.pt", weights_only=True)
    assert all(torch.equal(weights[name], whole[name].bfloat16()) for name in whole)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
    assert "rounded to bfloat16 afterwards" in (tmp_path / "out" / "README.md").read_text()


def test_tokenizer_template_and_agent_come_along(released: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(released)
    assert "<|im_start|>" in tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False)
    told = read_agent_file(released)
    assert told is not None
    assert {name: told.settings[name] for name in AGENT} == AGENT
    assert told.settings["topk"] == 2
    told.check_texts()


def test_the_machine_does_not_show(released: Path, one_rank: Path) -> None:
    text = "".join(path.read_text(errors="replace") for path in released.iterdir())
    assert str(one_rank) not in text
    assert "attn_implementation" not in text


def test_what_was_not_tested_is_said(released: Path) -> None:
    card = (released / "README.md").read_text()
    assert "| served by vLLM | not tested |" in card
    assert "No evaluation of these weights was given" in card
    assert json.loads((released / "release.json").read_text())["proof"]["vllm"] is None


def test_the_same_checkpoint_gives_the_same_model_to_evaluations(
    released: Path, one_rank: Path, tmp_path: Path
) -> None:
    make(one_rank / "tied-fp32", tmp_path / "out")
    assert model_settings(tmp_path / "out") == model_settings(released)


def test_no_folder_is_left_behind_or_overwritten(run: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    with pytest.raises(ReleaseError, match="full exists already"):
        make(run, tmp_path / "full")
    (actor_of(run) / "model_world_size_1_rank_0.pt").unlink()
    with pytest.raises(ReleaseError, match="rank_0.pt is missing"):
        make(run, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "run"]


def test_an_export_of_another_step_is_noticed(run: Path, tmp_path: Path) -> None:
    """The trainer's own export beside the shards is compared with them."""
    model = tiny_model("untied-fp32")
    model.save_pretrained(actor_of(run) / "huggingface")
    assert make(run, tmp_path / "right")["proof"]["logits"]["export"] == 0.0  # type: ignore[index]
    model.model.norm.weight.data += 0.01
    model.save_pretrained(actor_of(run) / "huggingface")
    with pytest.raises(ReleaseError, match="differ by .* in a logit: they are of different steps"):
        make(run, tmp_path / "wrong")


def test_a_checkpoint_outside_of_its_run_is_refused(run: Path, tmp_path: Path) -> None:
    moved = shutil.move(run / "checkpoints" / "global_step_2", tmp_path / "a" / "b" / "global_step_2")
    with pytest.raises(ReleaseError, match=r"config\.yaml cannot be read"):
        make(Path(moved), tmp_path / "out")


def test_a_tokenizer_without_template_is_refused(run: Path, tmp_path: Path) -> None:
    (actor_of(run) / "huggingface" / "chat_template.jinja").unlink()
    with pytest.raises(ReleaseError, match="no chat template"):
        make(run, tmp_path / "out")


def settings_for(model: Path | str, count: int) -> dict[str, object]:
    sha = model if isinstance(model, str) else model_settings(model)["sha256"]
    return {
        "model": {"sha256": sha},
        "agent": AGENT,
        "data": {"sha256": "d" * 64, "questions": count, "rows_sha256": "r"},
        "sampling": {"temperature": 0.0, "seed": None},
        "search": {"topk": 2},
        "api": "completions",
    }


def test_results_are_told_apart_by_the_hash_of_the_model(run: Path, tmp_path: Path) -> None:
    tiny_model("untied-fp32").save_pretrained(actor_of(run) / "huggingface")
    own = actor_of(run) / "huggingface"
    write_evaluation(run / "eval" / "before" / "window1", {0}, settings=settings_for("b" * 64, 6))
    write_evaluation(run / "eval" / "after" / "window1", {0, 1, 2}, settings=settings_for(own, 6))
    write_evaluation(run / "eval" / "stranger", {0, 1, 2, 3, 4}, settings=settings_for("c" * 64, 6))
    make(run, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| after/window1 | this model | `window:1` | 6 | 0.500 [0.167, 0.833]" in card
    assert "| before/window1 | start of training |" in card
    assert "| stranger | another model |" in card
    from huggingface_hub import ModelCard

    results = ModelCard.load(tmp_path / "out" / "README.md").data.eval_results
    assert results is not None
    assert {
        (each.metric_type, each.metric_value) for each in results if each.metric_type == "exact_match"
    } == {("exact_match", 0.5)}


def test_an_unfinished_evaluation_is_no_result(run: Path, tmp_path: Path) -> None:
    write_evaluation(tmp_path / "results", {0}, settings=settings_for("c" * 64, 7))
    with pytest.raises(ReleaseError, match="not finished: 6 of 7"):
        make(run, tmp_path / "out", results=[tmp_path / "results"])


def test_data_of_another_run_are_refused(run: Path, tmp_path: Path) -> None:
    from tests.verl_patches.tiny import build_data

    build_data(tmp_path / "data")
    write_evaluation(run / "eval" / "after", {0}, settings=settings_for("c" * 64, 6))
    with pytest.raises(ReleaseError, match=r"validation\.parquet is not the file"):
        make(run, tmp_path / "out", data=tmp_path / "data")
