from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval.errors import EvalError
from eval.model_files import load_tokenizer
from mempo.tokens import ChatTokens
from tests.mempo.support import small_tokens


def test_a_name_in_the_hugging_face_cache_brings_its_ends_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    cached = tmp_path / "models--somebody--tiny"
    folder = cached / "snapshots" / "abc"
    folder.mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    small_tokens().tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    second = small_tokens().added["<|endoftext|>"]
    assert second not in ChatTokens(load_tokenizer("somebody/tiny")).stop_token_ids
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [second]}))
    assert second in ChatTokens(load_tokenizer("somebody/tiny")).stop_token_ids
    assert second in ChatTokens(load_tokenizer(str(folder))).stop_token_ids


def test_a_tokenizer_that_is_nowhere_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EvalError, match="no tokenizer at 'nobody/nothing'"):
        load_tokenizer("nobody/nothing")
