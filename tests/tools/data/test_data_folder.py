"""A data folder changes as a whole: to all the new files, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.data.data_folder import replaced
from tools.data.manifest import changed_outputs, write_manifest
from tools.data.records import DataError


def write(out: Path, inputs: list[Path], **texts: str) -> None:
    with replaced(out, inputs) as folder:
        for name, text in texts.items():
            (folder / name).write_text(text)
        write_manifest(folder, inputs, [folder / name for name in texts], {})


def content(out: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in out.iterdir() if path.name != "manifest.json"}


def test_what_the_manifest_lists_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    write(tmp_path, [], a="1", b="1")
    (tmp_path / "notes").write_text("mine")
    write(tmp_path, [], b="2", c="2")
    assert content(tmp_path) == {"b": "2", "c": "2", "notes": "mine"}
    assert changed_outputs(tmp_path) == []


def test_an_error_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, [], a="1", b="1")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail_halfway() -> None:
        with replaced(tmp_path) as folder:
            (folder / "a").write_text("2")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_halfway()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["a", "listed"])
def test_an_input_that_would_be_lost_is_refused(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, [], listed="1")
    (out / "a").write_text("1")
    before = content(out)
    (tmp_path / "link").symlink_to(out)
    for folder in (out, tmp_path / "link"):
        with pytest.raises(DataError, match=f"{name} would be removed or overwritten: choose another folder"):
            write(folder, [out / name], a="2")
    assert content(out) == before
    (out / "c").write_text("an input that nothing touches")
    write(out, [out / "c"], a="2")
    assert content(out) == {"a": "2", "c": "an input that nothing touches"}
