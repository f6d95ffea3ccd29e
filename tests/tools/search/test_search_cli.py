"""`mempo search`: what `serve` hands to the server, and what is refused, with the option that was meant."""

import pytest
from typer.testing import CliRunner

from tools.search import cli
from tools.search.cli import app
from tools.search.settings import ServerSettings


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


@pytest.fixture
def paths(tmp_path):
    """A corpus file, a folder, an index, an unfinished one, and nothing, under these names."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "0", "title": "Dune", "text": "A novel."}\n')
    (tmp_path / "folder").mkdir()
    (tmp_path / "unfinished.partial").mkdir()
    result = CliRunner().invoke(app, ["build", "--corpus", str(corpus), "--out", str(tmp_path / "index")])
    assert result.exit_code == 0, result.output
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("serve --index {}/corpus.jsonl", "is a file; an index is the folder"),
        ("serve --index {}/folder", "holds no index"),
        ("serve --index {}/nothing", "holds no index"),
        ("serve --index {}/unfinished", "is not finished: run the same `mempo search build` again"),
        ("serve --index {0}/index --encoder {0}/folder", "it takes no encoder"),
        ("serve --corpus {}/folder", "a folder; a corpus is one file"),
        ("serve --corpus {}/index", "an index: give it as --index"),
        ("serve --corpus {}/nothing", "cannot be read: No such file"),
        ("serve --corpus {0}/corpus.jsonl --encoder {0}/folder", "--encoder belongs to --index"),
        (
            "serve --corpus {}/corpus.jsonl --host 203.0.113.1 --token-env HOME",
            "cannot listen on http://203.0.113.1:0",
        ),
        ("build --corpus {0}/folder --out {0}/new", "a folder; a corpus is one file"),
        ("build --corpus {0}/index --out {0}/new", "an index: give it as --index"),
        ("build --corpus {0}/nothing --out {0}/new", "no such file"),
        ("build --corpus {0}/corpus.jsonl --out {0}/corpus.jsonl", "is a file; --out takes the folder"),
        (
            "build --corpus {0}/corpus.jsonl --out {0}/corpus.jsonl --replace",
            "is a file; --out takes the folder",
        ),
        ("build --corpus {0}/corpus.jsonl --out {0}/corpus.jsonl/new", "is a file; --out takes the folder"),
        ("build --corpus {0}/corpus.jsonl --out {0}/new --kind dense --encoder {0}/corpus.jsonl", "encoder"),
        ("web --cache {}/corpus.jsonl --mode replay", "is a file; give a folder"),
        ("web --cache {}/nothing --mode replay", "does not exist, so there is nothing to replay"),
    ],
)
def test_a_path_of_the_wrong_kind_is_named_with_what_is_meant(words, message, paths):
    port = [] if words.startswith("build") else ["--port", "0"]
    result = CliRunner().invoke(app, [*words.format(paths).split(), *port])
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "error: " in said and message in said, said
    assert "Traceback" not in said and isinstance(result.exception, SystemExit)


def test_ipv6_is_printed_in_brackets_and_may_be_given_so(served):
    for host in ("::1", "[::1]"):
        result = run("--corpus", "pages.jsonl", "--host", host)
        assert "listening on http://[::1]:8000" in result.output
        assert served[-1][1].host == "::1"


@pytest.mark.parametrize("command", ["serve", "web"])
def test_help_states_the_limits(command):
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "400"})
    said = " ".join(result.output.split())
    assert f"{ServerSettings.max_queries:,} queries, 4,000 characters each" in said


def test_help_shows_a_request():
    result = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "POST /retrieve" in result.output
    assert "--parent" not in result.output
