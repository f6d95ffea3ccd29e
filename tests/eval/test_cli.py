from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from typer.testing import CliRunner

from eval.cli import app
from tests.eval.support import FakeEndpoint, serving, write_questions
from tests.mempo.support import small_tokens

runner = CliRunner(env={"COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"})


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def command(fake: FakeEndpoint, folder: Path, out: str) -> list[str]:
    small_tokens().tokenizer.save_pretrained(folder / "tokenizer")
    words = ["run", "--model", "fake", "--tokenizer", str(folder / "tokenizer"), "--endpoint", fake.url]
    words += ["--data", str(write_questions(folder / "v.parquet", 6)), "--search-url", fake.url]
    words += ["--prompt", "brief", "--max-response-tokens", "400", "--max-context-tokens", "4000"]
    return [*words, "--out", str(folder / out)]


def evaluate(fake: FakeEndpoint, folder: Path, out: str, *more: str) -> tuple[int, str]:
    result = runner.invoke(app, [*command(fake, folder, out), *more])
    return result.exit_code, plain(result.output)


def test_a_finished_run_asks_nothing_and_names_its_numbers(tmp_path: Path) -> None:
    with serving(FakeEndpoint()) as fake:
        code, text = evaluate(fake, tmp_path, "a")
        assert code == 0, text
        assert "0.500 ± 0.224" in text
        asked = len(fake.requests)
        code, text = evaluate(fake, tmp_path, "a")
        assert "nothing to do" in text
        assert len(fake.requests) == asked


def test_runs_in_two_contexts_differ_by_name(tmp_path: Path) -> None:
    with serving(FakeEndpoint()) as fake:
        for out, more in (("a", []), ("history", ["--context", "history"])):
            code, text = evaluate(fake, tmp_path, out, *more)
            assert code == 0, text
    folders = ["compare", str(tmp_path / "a"), str(tmp_path / "history")]
    refused = runner.invoke(app, folders)
    assert refused.exit_code == 1
    assert "agent.context: 'window:1' → 'history'" in plain(refused.output)
    assert runner.invoke(app, [*folders, "--subject", "agent.context"]).exit_code == 0


def test_an_endpoint_without_token_ids_is_asked_over_chat_and_the_folder_says_why(tmp_path: Path) -> None:
    with serving(FakeEndpoint()) as fake:
        fake.takes_ids = False
        code, text = evaluate(fake, tmp_path, "chat")
        assert code == 0, text
        assert "over chat messages: status_404" in text
        assert "estimated" in text
        settings = json.loads((tmp_path / "chat" / "settings.json").read_text())
        assert settings["api"] == "chat"
        assert settings["remarks"]["api"].startswith("status_404")
        fake.takes_ids = True  # begun over chat, it stays there, and asks nothing anew
        (tmp_path / "chat" / "summary.json").unlink()
        asked = len(fake.requests)
        code, text = evaluate(fake, tmp_path, "chat")
        assert (code, len(fake.requests)) == (0, asked)
        code, text = evaluate(fake, tmp_path, "chat", "--api", "completions")
        assert code == 1
        assert "api: 'chat' → 'completions'" in text
        code, text = evaluate(fake, tmp_path, "ids")
        assert code == 0, text
    refused = runner.invoke(app, ["compare", str(tmp_path / "chat"), str(tmp_path / "ids")])
    assert "api: 'chat' → 'completions'" in plain(refused.output)


def test_the_key_reaches_no_file_and_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with serving(FakeEndpoint()) as fake:
        fake.takes_ids = False
        fake.trouble = lambda number, prompt: 400 if "Question 1?" in prompt else None
        code, text = evaluate(fake, tmp_path, "out")
    assert code == 0, text
    assert {header["Authorization"] for header in fake.headers} == {"Bearer sk-very-secret"}
    written = [path.read_text() for path in (tmp_path / "out").iterdir()]
    assert len(written) == 3
    assert not any("sk-very-secret" in each for each in (text, *written))


@pytest.mark.parametrize("agent", ["react", "rag"])
def test_agents_without_a_memory_see_the_history_by_default(tmp_path: Path, agent: str) -> None:
    with serving(FakeEndpoint()) as fake:
        fake.keeps_memory = False
        code, text = evaluate(fake, tmp_path, "out", "--agent", agent)
    assert code == 0, text
    settings = json.loads((tmp_path / "out" / "settings.json").read_text())
    assert settings["agent"]["context"] == "history"


def test_memories_are_scored_after_a_run_or_later(tmp_path: Path) -> None:
    with serving(FakeEndpoint()) as fake:
        torch.manual_seed(0)
        config = Qwen2Config(vocab_size=len(small_tokens().tokenizer), hidden_size=32, num_hidden_layers=1)
        fake.model = Qwen2ForCausalLM(config).eval()
        code, text = evaluate(fake, tmp_path, "a", "--probe-memory")
        assert code == 0, text
        assert "memories of" in text
        at_the_end = (tmp_path / "a" / "probe.jsonl").read_text()
        for path in (tmp_path / "a").glob("probe*"):
            path.unlink()
        words = ["probe", str(tmp_path / "a"), "--model", "fake", "--endpoint", fake.url]
        result = runner.invoke(app, [*words, "--tokenizer", str(tmp_path / "tokenizer")])
        assert result.exit_code == 0, result.output
        assert sorted((tmp_path / "a" / "probe.jsonl").read_text()) == sorted(at_the_end)
        fake.takes_ids = False
        code, text = evaluate(fake, tmp_path, "chat", "--probe-memory")
        assert code == 1
        assert "run `mempo eval probe` with a model folder" in text


def test_a_killed_run_goes_on_to_the_samples_of_an_uninterrupted_one(tmp_path: Path) -> None:
    """Greedy: ids, predictions, tokens of every turn and scores are the same; only times differ."""
    with serving(FakeEndpoint()) as fake:
        words = [*command(fake, tmp_path, "killed"), "--concurrency", "2"]
        samples = tmp_path / "killed" / "samples.jsonl"
        fake.hangs_s = 0.1
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.cli", "eval", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        deadline = time.monotonic() + 60
        while not (samples.is_file() and samples.read_bytes().count(b"\n") >= 2) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL, errors
        before = samples.read_bytes()
        assert 2 <= before.count(b"\n") < 6  # written as they finished
        fake.hangs_s = 0.0
        result = runner.invoke(app, words)
        assert result.exit_code == 0, result.output
        assert samples.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
        code, text = evaluate(fake, tmp_path, "whole")
        assert code == 0, text
    runs = []
    for out in ("killed", "whole"):
        lines = (tmp_path / out / "samples.jsonl").read_text().splitlines()
        runs.append(sorted((json.loads(line) for line in lines), key=lambda sample: sample["id"]))
        for sample in runs[-1]:
            del sample["seconds"]
    assert runs[0] == runs[1]
    assert len(runs[0]) == 6
    summaries = [json.loads((tmp_path / out / "summary.json").read_text()) for out in ("killed", "whole")]
    for summary in summaries:
        del summary["seconds"], summary["seconds_ci"]
    assert summaries[0] == summaries[1]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--context", "window:0"], "window"),
        (["--endpoint", "localhost:80"], "write `local`, or a URL"),
        (["--api", "messages"], "write auto, completions, chat"),
        (["--agent", "react", "--force-memory-prefix"], "react has no memory to open"),
        (["--questions", "7"], "the file has 6"),
        (["--prompt", "other"], "agent.prompt is 'other'"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(tmp_path: Path, more: list[str], message: str) -> None:
    with serving(FakeEndpoint()) as fake:
        code, text = evaluate(fake, tmp_path, "out", *more)
    assert code == 1
    assert message in text


def test_help_teaches(tmp_path: Path) -> None:
    for words in ([], ["run"], ["probe"], ["compare"], ["report"], ["score"]):
        result = runner.invoke(app, [*words, "--help"])
        assert result.exit_code == 0
        assert len(plain(result.output)) > 500
