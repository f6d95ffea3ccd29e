"""A run evaluates in the prompts that it trains in."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from mempo.task import Reference, Task
from tests.eval.support import FakeEndpoint, serving
from tests.eval.test_template_options import tokenizer_folder
from tests.eval.test_vllm_server import Served
from tools.data.schema import QuestionRow, write_rows
from tools.run.evaluation import evaluate
from tools.run.search import SearchAccess
from tools.run.settings import find_recipe, load_config


@pytest.mark.parametrize("thinking", [False, None])
def test_the_chat_templates_options_are_those_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thinking: bool | None
) -> None:
    from transformers import AutoTokenizer

    from verl_patches.agents import chat_tokens

    monkeypatch.setattr("eval.before_after.VllmServer", Served)
    model = tokenizer_folder(tmp_path / "fake")
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    task = Task("q", "What is the key?", document="The key is 42. " * 80)
    write_rows(
        tmp_path / "validation.parquet", [QuestionRow(task, Reference([["42"]]), "made", "validation", 0)]
    )
    override = [] if thinking is False else ["~data.apply_chat_template_kwargs.enable_thinking"]
    config = load_config(
        find_recipe("memagent_short"), [*override, "trainer.device=cpu", "run.eval_questions=1"]
    )
    with serving(FakeEndpoint()) as Served.fake:
        evaluate(
            config,
            model,
            tmp_path / "validation.parquet",
            SearchAccess(None),
            tmp_path / "out",
            title="evaluation",
            console=Console(file=io.StringIO()),
        )
    trained = chat_tokens(config, AutoTokenizer.from_pretrained(model)).generation_prompt_ids
    prompts = [request["prompt"] for request in Served.fake.requests]
    assert len(prompts) >= 3
    assert all(prompt[-len(trained) :] == trained for prompt in prompts)
    settings = json.loads((tmp_path / "out" / "rewritten" / "settings.json").read_text())
    expected = None if thinking is None else {"enable_thinking": thinking}
    assert settings.get("chat_template_kwargs") == expected
