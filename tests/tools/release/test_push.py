"""Uploads: exactly the listed files, again where they broke off, and never a secret or a path of this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.tools.release.fake_hub import FakeHub, serving
from tools.release.cli import app
from tools.release.manifest import NAME, release_files, write_manifest
from tools.release.scan import leaks

TOKEN = "hf_" + "a1B2" * 9
NAME_THERE = "org/tiny"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    # The fake speaks LFS, as hubs without Xet storage do.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with serving(FakeHub(TOKEN)) as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield fake


def push(release: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["--out", str(release), "--push", NAME_THERE, *more])


def contents(release: Path) -> dict[str, bytes]:
    return {name: (release / name).read_bytes() for name in release_files(release)}


def held(hub: FakeHub) -> dict[str, bytes]:
    return {
        name: content for name, content in hub.repositories[NAME_THERE].items() if name != ".gitattributes"
    }


def test_a_dry_run_lists_every_file_and_asks_nobody(hub: FakeHub, release: Path) -> None:
    result = push(release)
    assert result.exit_code == 0, result.output
    assert f"model {NAME_THERE} (private): {len(release_files(release))} files" in result.output
    for name, content in contents(release).items():
        assert any(line.split()[:2] == [name, f"{len(content):,}"] for line in result.output.splitlines()), (
            name
        )
    assert "nothing was sent" in result.output
    assert hub.asked == []


def test_exactly_the_listed_files_arrive(hub: FakeHub, release: Path) -> None:
    (release / ".cache" / "huggingface").mkdir(parents=True)
    (release / ".cache" / "huggingface" / "state").write_text("of the hub's client")
    result = push(release, "--yes")
    assert result.exit_code == 0, result.output
    assert held(hub) == contents(release)
    assert hub.private[NAME_THERE] is True
    assert TOKEN not in result.output


def test_public_is_asked_for(hub: FakeHub, release: Path) -> None:
    assert "(public)" in push(release, "--public").output
    assert push(release, "--public", "--yes").exit_code == 0
    assert hub.private[NAME_THERE] is False


@pytest.mark.parametrize("broken", ["breaks", "refuses_commits"])
def test_interrupted_and_repeated_it_completes(hub: FakeHub, release: Path, broken: str) -> None:
    setattr(hub, broken, 1)
    result = push(release, "--yes")
    assert result.exit_code == 1
    assert "the same command goes on with it" in result.output
    assert held(hub) != contents(release)
    result = push(release, "--yes")
    assert result.exit_code == 0, result.output
    assert held(hub) == contents(release)
    assert len(hub.sent) == len(set(hub.sent)), "nothing is sent twice"
    before = list(hub.sent)
    assert push(release, "--yes").exit_code == 0
    assert hub.sent == before, "complete: nothing more to send"


def test_files_of_something_else_are_not_mixed_in(hub: FakeHub, release: Path) -> None:
    hub.repositories[NAME_THERE] = {"model-00001-of-00002.safetensors": b"old"}
    result = push(release, "--yes")
    assert result.exit_code == 1
    assert "holds model-00001-of-00002.safetensors, which this release does not have" in result.output
    assert list(held(hub)) == ["model-00001-of-00002.safetensors"]


def test_a_token_is_needed_and_only_the_environment_is_asked(
    hub: FakeHub, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    result = push(release, "--yes")
    assert result.exit_code == 1
    assert "set HF_TOKEN" in result.output
    monkeypatch.setenv("HF_TOKEN", "hf_" + "wrong" * 8)
    result = push(release, "--yes")
    assert result.exit_code == 1
    assert hub.repositories == {}


PLANTED = {
    "a Hugging Face token": "hf_" + "x9Y8" * 8,
    "an API key": "sk-proj-" + "abcDEF12" * 4,
    "an AWS key": "AKIA" + "ABCDEFGH" * 2,
    "a private key": "-----BEGIN RSA PRIVATE KEY-----",
    "a home directory": "/home/somebody/runs",
    "a Windows home directory": "C:\\Users\\somebody",
    "a temporary folder": "/tmp/run-17/x",
}


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("name", ["README.md", "agent.json"])
def test_a_planted_secret_or_path_stops_everything(hub: FakeHub, release: Path, kind: str, name: str) -> None:
    """Also where release.json was written after it was planted."""
    path = release / name
    text = path.read_text()
    planted = text + f"\nsee {PLANTED[kind]} there\n"
    if name == "agent.json":
        planted = json.dumps({**json.loads(text), "note": f"see {PLANTED[kind]} there"}, indent=2)
    path.write_text(planted)
    manifest = json.loads((release / NAME).read_text())
    facts = {key: manifest[key] for key in manifest if key not in ("version", "kind", "files", "sha256")}
    write_manifest(release, "model", facts)
    result = push(release, "--yes")
    assert result.exit_code == 1
    assert f"{name} holds {kind}, line" in result.output.replace("\n", " ")
    assert PLANTED[kind] not in result.output
    assert hub.asked == []


def test_the_value_of_a_secret_variable_is_found_in_any_form(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_TOKEN", "correct horse battery")
    (release / "README.md").write_text("it is correct horse battery")
    assert leaks(release) == ["README.md holds the value of $SEARCH_TOKEN"]


def test_secrets_in_tables_and_in_the_head_of_weights_are_found(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    import torch
    from safetensors.torch import save_file

    token = PLANTED["a Hugging Face token"]
    pq.write_table(pa.Table.from_pylist([{"a": {"b": [token]}}]), tmp_path / "t.parquet", compression="zstd")
    save_file({"x": torch.zeros(1)}, tmp_path / "m.safetensors", metadata={"made_by": token})
    assert [line.split(",")[0] for line in leaks(tmp_path)] == [
        "m.safetensors holds a Hugging Face token",
        "t.parquet holds a Hugging Face token",
    ]


def test_ordinary_texts_are_no_secrets(tmp_path: Path) -> None:
    """Among them tokens of real vocabularies, and words with a hyphen."""
    texts = [
        "hf_hub_download",
        "risk-averse-and-very-long-hyphenated-word",
        "task-sk-x",
        "/home",
        "/tmp",
        "/root/",
    ]
    texts += ["https://host/tmp/file", "AKIA", "-----BEGIN", "http://example.com/home/page", os.sep]
    (tmp_path / "tokenizer.json").write_text(json.dumps({text: i for i, text in enumerate(texts)}))
    assert leaks(tmp_path) == []


def test_a_spoilt_release_is_not_sent(hub: FakeHub, release: Path) -> None:
    (release / "config.json").write_text("{}")
    result = push(release, "--yes")
    assert result.exit_code == 1
    assert "config.json has 2 bytes" in result.output
    assert hub.asked == []


@pytest.mark.parametrize("name", ["tiny", "org/", "a/b/c", "org/na me"])
def test_a_repository_has_an_owner_and_a_name(release: Path, name: str) -> None:
    result = CliRunner().invoke(app, ["--out", str(release), "--push", name])
    assert result.exit_code == 1
    assert "write ORG/NAME" in result.output
