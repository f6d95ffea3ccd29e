"""A data folder changes as a whole: to all the new files, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.data.data_folder import replaced
from tools.data.manifest import changed_outputs, write_manifest
from tools.data.records import DataError
from tools.sft.rows import write_sft_rows


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
    (out / "a").unlink()
    (out / "c").write_text("an input that nothing touches")
    write(out, [out / "c"], a="2")
    assert content(out) == {"a": "2", "c": "an input that nothing touches"}


def test_files_of_somebody_else_are_refused_and_stay(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(DataError, match=r"/a was not written by `mempo data`: choose another folder"):
        write(tmp_path, [], a="1", b="1")
    assert content(tmp_path) == {"a": "mine"}
    (tmp_path / "a").unlink()
    (tmp_path / "manifest.json").write_text('{"files": {}}')
    with pytest.raises(DataError, match=r"manifest\.json is not of `mempo data`"):
        write(tmp_path, [], b="1")
    assert (tmp_path / "manifest.json").read_text() == '{"files": {}}'
    (tmp_path / "manifest.json").unlink()
    write(tmp_path, [], a="1")
    (tmp_path / "a").write_text("changed by hand")
    with pytest.raises(DataError, match="/a was changed after `mempo data` wrote it"):
        write(tmp_path, [], b="2")
    assert content(tmp_path) == {"a": "changed by hand"}
    (tmp_path / "built.json").write_text("{}")
    with pytest.raises(DataError, match="is a folder of `mempo world build`"):
        write(tmp_path, [], b="2")


def test_rows_for_sft_go_with_the_rows_they_were_made_from(tmp_path: Path) -> None:
    write(tmp_path, [], a="1")
    row = {
        "id": "1",
        "messages": [{"role": "user", "content": "x"}],
        "context": "history",
        "train_last_only": False,
    }
    write_sft_rows(tmp_path / "sft.parquet", [row])
    write(tmp_path, [], a="2")
    assert content(tmp_path) == {"a": "2"}
    (tmp_path / "sft.parquet").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"sft\.parquet would stand beside rows that it was not made from"):
        write(tmp_path, [], a="3")
    assert content(tmp_path) == {"a": "2", "sft.parquet": "mine"}


@pytest.mark.parametrize("at", range(5))
def test_a_kill_while_files_change_places_does_not_lock_the_folder(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, [], a="1", b="1")
    calls = []

    def counted(real: Any) -> Any:
        def call(self: Path, *rest: Any, **more: Any) -> Any:
            if self.parent == tmp_path or self.parent.parent == tmp_path:
                if len(calls) == at:
                    raise KeyboardInterrupt
                calls.append(self.name)
            return real(self, *rest, **more)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", counted(Path.unlink))
        patch.setattr(Path, "replace", counted(Path.replace))
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path, [], b="2", c="2")
    write(tmp_path, [], b="3")
    assert content(tmp_path) == {"b": "3"}
    assert changed_outputs(tmp_path) == []
