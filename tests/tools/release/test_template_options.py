"""A release says with which options of the chat template it was trained, and is proved in prompts made with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from eval.agent_file import NAME, choose_template_options
from tests.tools.release.runs import AGENT
from tools.hashing import file_sha256
from tools.release.agent_settings import agent_settings
from tools.release.questions import reference_for
from tools.release.results import THIS, Result
from tools.run.data import DataFolder

OPTIONS = {"enable_thinking": False}


def written(folder: Path, data: dict[str, Any]) -> Path:
    config = OmegaConf.create(
        {"agent": AGENT, "search": {"topk": 2}, "memory": {"weight": 0.5}, "data": data}
    )
    (folder / NAME).write_text(json.dumps(agent_settings(config)))
    return folder


@pytest.mark.parametrize("options", [OPTIONS, {}])
def test_an_evaluation_of_the_release_takes_the_options_of_training(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    folder = written(tmp_path, {"apply_chat_template_kwargs": options})
    assert choose_template_options({}, [folder], override=False) == options


def test_a_run_without_the_key_has_no_options(tmp_path: Path) -> None:
    assert choose_template_options({}, [written(tmp_path, {})], override=False) == {}


def test_answers_are_set_beside_those_in_the_same_prompts_only(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    data.validation.write_bytes(b"questions")
    settings = {
        "agent": AGENT,
        "search": None,
        "sampling": {"temperature": 0},
        "data": {"sha256": file_sha256(data.validation)},
    }
    plain, told = (
        Result("r", THIS, {**settings, **more}, {}, (), {})
        for more in ({}, {"chat_template_kwargs": OPTIONS})
    )
    assert reference_for([plain, told], AGENT, 2, data, OPTIONS) is told
    assert reference_for([plain, told], AGENT, 2, data, {}) is plain
    assert reference_for([plain], AGENT, 2, data, OPTIONS) is None
