from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.cli import app
from tests.eval.support import FakeEndpoint, serving, write_questions
from tests.mempo.support import small_tokens

runner = CliRunner(env={"COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"})


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def evaluate(fake: FakeEndpoint, folder: Path, out: str, *more: str) -> tuple[int, str]:
    small_tokens().tokenizer.save_pretrained(folder / "tokenizer")
    words = ["run", "--model", "fake", "--tokenizer", str(folder / "tokenizer"), "--endpoint", fake.url]
    words += ["--data", str(write_questions(folder / "v.parquet", 6)), "--search-url", fake.url]
    words += ["--prompt", "brief", "--max-response-tokens", "400", "--max-context-tokens", "4000"]
    result = runner.invoke(app, [*words, "--out", str(folder / out), *more])
    return result.exit_code, plain(result.output)


def test_two_runs_are_evaluated_and_compared(tmp_path: Path) -> None:
    with serving(FakeEndpoint()) as fake:
        code, text = evaluate(fake, tmp_path, "a")
        assert code == 0, text
        assert "0.500 ± 0.224" in text
        fake.right = set(range(6))
        code, text = evaluate(fake, tmp_path, "b")
        assert code == 0, text
        code, text = evaluate(fake, tmp_path, "b")
        assert "nothing to do" in text
        code, text = evaluate(fake, tmp_path, "history", "--context", "history")
        assert code == 0, text
    result = runner.invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert result.exit_code == 0
    cells = [cell.strip() for cell in re.split("[│|┃]", plain(result.output))]
    assert [cell for cell in cells if cell in ("3", "0", "+0.500", "0.125")] == [
        "3",
        "0",
        "3",
        "0",
        "+0.500",
        "0.125",
    ]

    refused = runner.invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "history")])
    assert refused.exit_code == 1
    assert "agent.context: 'window:1' → 'history'" in plain(refused.output)
    named = ["--subject", "agent.context"]
    allowed = runner.invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "history"), *named])
    assert allowed.exit_code == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--context", "window:0"], "window"),
        (["--endpoint", "localhost:80"], "write `local`, or a URL"),
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
    for words in ([], ["run"], ["compare"]):
        result = runner.invoke(app, [*words, "--help"])
        assert result.exit_code == 0
        assert "same" in result.output or "compare" in result.output
