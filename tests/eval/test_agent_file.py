"""A released model brings its agent's settings: they are the defaults, and others have to be meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval.agent_file import DEFAULTS, NAME, choose_settings, read_agent_file, shown_texts
from eval.cli import app
from eval.errors import EvalError
from tests.eval.support import FakeEndpoint, serving, write_questions
from tests.mempo.support import small_tokens

AGENT = {
    "name": "self_memory",
    "prompt": "brief",
    "context": "window:2",
    "max_turns": 4,
    "max_response_tokens": 400,
    "max_observation_tokens": 60,
    "max_context_tokens": 2000,
    "force_memory_prefix": False,
}


def write(folder: Path, agent: dict[str, Any] | None = None, **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    settings = AGENT | (agent or {})
    content = {"version": 1, "agent": settings, "search": {"topk": 2}, "texts": shown_texts(settings), **more}
    (folder / NAME).write_text(json.dumps(content))
    return folder


def test_without_a_file_what_is_given_stands_over_our_defaults(tmp_path: Path) -> None:
    assert choose_settings({"max_turns": 3, "topk": None}, [tmp_path]) == {**DEFAULTS, "max_turns": 3}
    assert choose_settings({}, [tmp_path / "no-folder", Path("a-served-name")]) == DEFAULTS


def test_the_models_settings_are_the_defaults(tmp_path: Path) -> None:
    chosen = choose_settings(dict.fromkeys(DEFAULTS), [tmp_path / "none", write(tmp_path / "model")])
    assert chosen == {**AGENT, "topk": 2}


def test_the_same_settings_may_be_given_by_hand(tmp_path: Path) -> None:
    given = {"max_turns": 4, "force_memory_prefix": False, "context": "window:2"}
    assert choose_settings(given, [write(tmp_path / "model")])["max_turns"] == 4


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"name": "react"}, "--agent is react, the model's is self_memory"),
        ({"max_turns": 5}, "--max-turns is 5, the model's is 4"),
        ({"force_memory_prefix": True}, "--force-memory-prefix is True"),
        ({"topk": 3}, "--topk is 3, the model's is 2"),
        ({"context": "history"}, "--context is history"),
    ],
)
def test_other_settings_are_refused_by_name_unless_they_are_meant(
    tmp_path: Path, given: dict[str, Any], option: str
) -> None:
    folder = write(tmp_path / "model")
    with pytest.raises(EvalError, match=f"{option}.*--override-agent"):
        choose_settings(given, [folder])
    assert choose_settings(given, [folder], override=True) == {**AGENT, "topk": 2, **given}


def test_the_words_of_a_reader_are_those_of_its_prompt(tmp_path: Path) -> None:
    reader = AGENT | {"name": "chunk_memory", "context": "rewritten"}
    texts = shown_texts(reader)
    assert texts["prompt.no_memory"] == "Nothing yet."
    assert len(texts["prompt.reading"]) == 4
    folder = write(tmp_path / "model", reader, texts={**texts, "prompt.no_memory": "None."})
    with pytest.raises(EvalError, match=r"prompt\.no_memory is worded otherwise"):
        choose_settings({}, [folder])


def test_settings_of_agents_to_come_are_kept(tmp_path: Path) -> None:
    assert choose_settings({}, [write(tmp_path / "model", {"verifier": "x"})])["verifier"] == "x"


def test_a_prompt_that_is_worded_otherwise_here_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", texts={**shown_texts(AGENT), "prompt": "Answer by guessing."})
    with pytest.raises(EvalError, match="prompt is worded otherwise"):
        choose_settings({}, [folder])
    assert choose_settings({}, [folder], override=True)["prompt"] == "brief"


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"version": 2}', '{"version": 1}', '{"version": 1, "agent": {}}']
)
def test_a_file_that_is_none_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    with pytest.raises(EvalError, match=r"agent\.json"):
        read_agent_file(tmp_path)


def test_a_missing_setting_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "model")
    content = json.loads((folder / NAME).read_text())
    del content["agent"]["max_turns"]
    (folder / NAME).write_text(json.dumps(content))
    with pytest.raises(EvalError, match=r"agent\.max_turns is missing"):
        read_agent_file(folder)


def test_an_evaluation_of_a_served_release_takes_its_settings(tmp_path: Path) -> None:
    """Served elsewhere, the model is a name: the file is found beside the tokenizer."""
    small_tokens().tokenizer.save_pretrained(tmp_path / "model")
    write(tmp_path / "model")
    with serving(FakeEndpoint()) as fake:
        words = ["run", "--model", "fake", "--tokenizer", str(tmp_path / "model"), "--endpoint", fake.url]
        words += ["--data", str(write_questions(tmp_path / "v.parquet", 3)), "--search-url", fake.url]
        result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
        assert result.exit_code == 0, result.output
        settings = json.loads((tmp_path / "out" / "settings.json").read_text())
        assert settings["agent"] == AGENT
        assert settings["search"] == {"topk": 2}
        refused = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "other"), "--max-turns", "9"])
        assert refused.exit_code == 1
        meant = CliRunner().invoke(
            app, [*words, "--out", str(tmp_path / "other"), "--max-turns", "9", "--override-agent"]
        )
        assert meant.exit_code == 0, meant.output
        assert json.loads((tmp_path / "other" / "settings.json").read_text())["agent"]["max_turns"] == 9
