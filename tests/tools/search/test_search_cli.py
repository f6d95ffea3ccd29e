"""`mempo search serve`: what it hands to the server, and what it refuses."""

import pytest
from typer.testing import CliRunner

from tools.search import cli
from tools.search.cli import app


@pytest.fixture
def served(monkeypatch):
    calls = []
    monkeypatch.setattr(cli, "serve", lambda load, settings, listener, parent: calls.append((load, settings)))
    return calls


def run(*arguments, **env):
    return CliRunner().invoke(app, ["serve", *arguments], env=env)


def test_the_default_is_loopback_without_a_token(served):
    assert run("--corpus", "pages.jsonl").exit_code == 0
    settings = served[0][1]
    assert (settings.host, settings.port, settings.token, settings.default_topk) == (
        "127.0.0.1",
        8000,
        None,
        3,
    )


def test_the_token_comes_from_the_environment_and_is_never_printed(served):
    arguments = ["--corpus", "pages.jsonl", "--host", "0.0.0.0", "--token-env", "MY_TOKEN"]
    result = run(*arguments, MY_TOKEN=" s3cret ")
    assert result.exit_code == 0
    assert served[0][1].token == "s3cret"
    assert "s3cret" not in result.output + repr(served[0][1])
    result = run(*arguments, MY_TOKEN="")
    assert result.exit_code == 1
    assert "MY_TOKEN is not set or empty" in result.output


def test_an_open_address_without_token_is_refused(served):
    result = run("--corpus", "pages.jsonl", "--host", "0.0.0.0")
    assert result.exit_code == 1
    assert "give a token" in result.output
    assert not served


def test_a_corpus_that_cannot_be_read_fails_before_any_search(tmp_path):
    result = run("--corpus", str(tmp_path / "missing.jsonl"), "--port", "0")
    assert result.exit_code == 1
    assert "cannot be read" in result.output


def test_help_shows_a_request():
    result = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "POST /retrieve" in result.output
    assert "--parent" not in result.output
