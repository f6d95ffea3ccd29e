"""A page replaces an earlier one of ours, and no file that we did not write or that somebody changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.cli import app
from eval.errors import EvalError
from eval.sample_log import SampleLog
from eval.sealed_file import SEAL, check_own, write_sealed
from tests.eval.recorded import write_evaluation
from tools.view.cli import app as view

runner = CliRunner(env={"COLUMNS": "300", "TERM": "dumb", "NO_COLOR": "1"})


def test_our_own_is_replaced_and_a_changed_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "new" / "page.html"
    for text in (f"<{SEAL}> one", f"<{SEAL}> two, longer"):
        write_sealed(path, text)
        assert path.read_text().endswith(text.partition("> ")[2])
    path.write_text(path.read_text().replace("two", "my"))
    before = path.read_text()
    with pytest.raises(EvalError, match=r"page\.html is there already.*move it away"):
        write_sealed(path, f"<{SEAL}> three")
    assert path.read_text() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("content", ["", "mine", SEAL, f"{SEAL}{'0' * 64}"])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a"
    path.write_text(content)
    with pytest.raises(EvalError, match="move it away"):
        check_own(path)
    with pytest.raises(EvalError, match="move it away"):
        check_own(tmp_path)
    check_own(tmp_path / "b")


def test_report_and_view_leave_other_files_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_evaluation(run, {0, 1})
    mine = tmp_path / "mine.md"
    mine.write_text("my notes")
    page, table = str(tmp_path / "page.html"), str(tmp_path / "table.md")
    for _ in range(2):
        for command, words in (
            (app, ["report", str(run), "--out", page, "--markdown", table]),
            (view, [str(run), "--out", str(tmp_path / "view.html")]),
        ):
            result = runner.invoke(command, words)
            assert result.exit_code == 0, result.output
    samples = (run / "samples.jsonl").read_bytes()
    for command, words in (
        (app, ["report", str(run), "--out", str(mine)]),
        (app, ["report", str(run), "--out", str(tmp_path / "third.html"), "--markdown", str(mine)]),
        (app, ["report", str(run), "--out", page, "--markdown", page]),
        (view, [str(run), "--out", str(mine)]),
        (view, [str(run), "--out", str(run / "samples.jsonl")]),
    ):
        result = runner.invoke(command, words)
        assert result.exit_code == 1
        assert "choose another file" in result.output
    assert mine.read_text() == "my notes"
    assert (run / "samples.jsonl").read_bytes() == samples
    assert not (tmp_path / "third.html").exists(), "refused before anything is written"


@pytest.mark.parametrize("name", ["summary.json", "samples.jsonl"])
def test_an_evaluation_is_not_begun_over_the_files_of_something_else(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(EvalError, match=rf"{name} without settings\.json.*choose another folder"):
        SampleLog(tmp_path, {"model": "x"}).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"
