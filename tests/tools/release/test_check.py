"""`--check` sees every change of every file, and names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tools.release.check import release_problems
from tools.release.cli import app
from tools.release.manifest import NAME, release_files, write_manifest


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def corrupt(path: Path) -> None:
    """One bit, in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def rename(path: Path) -> None:
    path.rename(path.with_name(f"old-{path.name}"))


@pytest.mark.parametrize(
    "spoil", [Path.unlink, cut, corrupt, rename], ids=["delete", "truncate", "corrupt", "rename"]
)
def test_every_spoilt_file_is_named(release: Path, spoil: Callable[[Path], None]) -> None:
    names = release_files(release)
    assert {NAME, "README.md", "model.safetensors", "tokenizer.json", "agent.json"} <= set(names)
    for name in names:
        whole = (release / name).read_bytes()
        spoil(release / name)
        problems = release_problems(release)
        assert problems, name
        assert any(name in problem for problem in problems), (name, problems)
        (release / f"old-{name}").unlink(missing_ok=True)
        (release / name).write_bytes(whole)
    assert release_problems(release) == []


@pytest.mark.parametrize("name", ["extra.txt", ".hidden", "folder/more.bin"])
def test_an_added_file_is_named(release: Path, name: str) -> None:
    (release / name).parent.mkdir(exist_ok=True)
    (release / name).write_text("x")
    assert release_problems(release) == [f"{name} does not belong to the release"]


def test_what_the_hub_adds_is_not_held_against_it(release: Path) -> None:
    (release / ".gitattributes").write_text("*.safetensors filter=lfs")
    (release / ".cache" / "huggingface" / "download").mkdir(parents=True)
    (release / ".cache" / "huggingface" / "download" / "README.md.metadata").write_text("x")
    assert release_problems(release) == []


@pytest.mark.parametrize("figure", ['"max_abs_diff": 0.0', '"parameters": '])
def test_a_figure_in_the_manifest_cannot_be_changed(release: Path, figure: str) -> None:
    text = (release / NAME).read_text()
    assert figure in text
    (release / NAME).write_text(text.replace(figure, figure.replace("0.0", "0.1").replace(": ", ": 1"), 1))
    assert release_problems(release) == [
        f"{NAME} was changed after the release was made: fetch or make the release again"
    ]


def test_a_manifest_written_anew_does_not_hide_what_is_inside(release: Path) -> None:
    """Hashes that fit are not enough: the files are read too."""
    import json

    manifest = json.loads((release / NAME).read_text())
    config = json.loads((release / "config.json").read_text())
    (release / "config.json").write_text(json.dumps({**config, "intermediate_size": 97, "dtype": "bfloat16"}))
    (release / "README.md").write_text("# no metadata\n")
    (release / "agent.json").write_text('{"version": 1}')
    facts = {name: manifest[name] for name in manifest if name not in ("version", "kind", "files", "sha256")}
    write_manifest(release, "model", facts)
    told = "\n".join(release_problems(release))
    for each in (
        "config.json says dtype",
        "mlp.down_proj.weight has the shape",
        "README.md: the metadata",
        "agent.json is incomplete",
    ):
        assert each in told


def test_the_command_names_the_file_and_fails(release: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["--check", str(release)]).exit_code == 0
    (release / "tokenizer.json").unlink()
    result = runner.invoke(app, ["--check", str(release)])
    assert result.exit_code == 1
    assert "tokenizer.json is missing" in result.output
    result = runner.invoke(app, ["--check", str(release / "nowhere")])
    assert result.exit_code == 1
    assert "is no folder" in result.output
