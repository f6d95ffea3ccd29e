"""The report says what the summaries say, opens without a network, and takes names as text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from eval.report_command import report
from eval.report_sections import sections
from eval.run_folder import read_runs
from tests.browser import browsing, needs_browser
from tests.eval.recorded import HOSTILE, PROBE, write_evaluation, write_training_run
from tests.parsed_page import ParsedPage

NAME = HOSTILE.replace("\ud800", "")  # settings.json is UTF-8, which has no lone surrogates

app = typer.Typer()
app.command()(report)
runner = CliRunner(env={"COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"})


def write_report(folder: Path, *runs: Path) -> ParsedPage:
    out = folder / "out" / "report.html"
    words = [*map(str, runs), "--out", str(out), "--markdown", str(folder / "out" / "report.md")]
    result = runner.invoke(app, words)
    assert result.exit_code == 0, result.output
    return ParsedPage(out.read_text(encoding="utf-8"))


def rows_of(page: ParsedPage, first: str) -> list[list[str]]:
    return [row for row in page.rows if row[0] == first]


def test_results_are_those_of_the_summaries(tmp_path: Path) -> None:
    a = write_evaluation(tmp_path / "a", {0, 2}, failed=(5,))
    write_evaluation(tmp_path / "b", {0, 1, 2})
    page = write_report(tmp_path, tmp_path / "a", tmp_path / "b")
    scores, costs = rows_of(page, "A")[:2]
    intervals = [
        f"{a[name]:.3f} [{a[f'{name}_ci'][0]:.3f}, {a[f'{name}_ci'][1]:.3f}]"
        for name in ("em", "f1", "sub_em")
    ]
    assert scores == ["A", "a", "m", "window:1", "6", *intervals, f"{a['format_share']:.3f}", "1"]
    counts = [f"{a[name]:.2f}" for name in ("turns", "searches")]
    tokens = [f"{a[name]:.0f}" for name in ("total_tokens", "peak_tokens", "dependency")]
    assert costs == ["A", *counts, *tokens, "–", "–", f"{a['seconds']:.2f}"]
    markdown = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    for row in page.rows:
        assert "| " + " | ".join(re.sub(r"([\[\]>])", r"\\\1", cell) for cell in row) + " |" in markdown


def test_a_summary_without_intervals_is_shown_with_its_standard_errors(tmp_path: Path) -> None:
    summary = write_evaluation(tmp_path / "a", {0, 2})
    path = tmp_path / "a" / "summary.json"
    path.write_text(json.dumps({name: value for name, value in summary.items() if not name.endswith("_ci")}))
    assert f"0.333 ± {summary['em_se']:.3f}" in rows_of(write_report(tmp_path, tmp_path / "a"), "A")[0]


def test_estimated_tokens_are_marked(tmp_path: Path) -> None:
    summary = write_evaluation(tmp_path / "a", {0, 2})
    estimated = {("estimated_" if "_tokens" in name else "") + name: value for name, value in summary.items()}
    (tmp_path / "a" / "summary.json").write_text(json.dumps(estimated))
    assert f"≈ {summary['peak_tokens']:.0f}" in rows_of(write_report(tmp_path, tmp_path / "a"), "A")[1]


def test_runs_over_the_same_questions_are_paired(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "a", {0, 1})
    write_evaluation(tmp_path / "b", {1, 2, 3, 4}, settings={"model": {"name": "n"}})
    write_evaluation(tmp_path / "other", {0}, count=3)
    page = write_report(tmp_path, tmp_path / "a", tmp_path / "b", tmp_path / "other")
    row = rows_of(page, "A → B")[0]
    assert row[:7] == ["A → B", "model.name", "6", "1", "1", "3", "1"]
    assert row[7].startswith("+0.333 [")
    assert row[9] == "0.62"
    assert rows_of(page, "A → C") == []


def test_groups_and_endings_are_counted(tmp_path: Path) -> None:
    summary = write_evaluation(tmp_path / "a", {0, 2, 3}, failed=(4,))
    page = write_report(tmp_path, tmp_path / "a")
    hops = summary["by_hops"]
    (row,) = (row for row in rows_of(page, "A") if row[1].endswith("(3)"))
    shown = [cell.split(" ±")[0] + cell[cell.index(" (") :] for cell in row[1:]]
    assert shown == [f"{hops[name]['em']:.3f} ({hops[name]['n']})" for name in ("1", "2")]
    assert ["run", "answered"] in page.rows
    assert ["run", "http_500"] in page.rows
    assert ["A", "5"] in page.rows


def test_a_training_run_brings_its_evaluations_and_its_curves(tmp_path: Path) -> None:
    run = write_training_run(tmp_path / "run")
    write_evaluation(run / "eval" / "after_step_10" / "window1", {0})
    write_evaluation(run / "eval" / "after_step_9" / "window1", {0})
    write_evaluation(run / "eval" / "before" / "window1", {0})
    page = write_report(tmp_path, run)
    names = [row[1] for letter in "ABC" for row in rows_of(page, letter)[:1]]
    assert names == ["run/before/window1", "run/after_step_9/window1", "run/after_step_10/window1"]
    assert ["step", "T1 run: reward"] in page.rows
    assert ["3", "0.300"] in page.rows
    assert ["T1 run: P_mem", "0.250 ± 0.022 (6)"] in page.rows
    assert ["T1′ run: P_full", "0.100 ± 0.000 (6)"] in page.rows
    assert ["T1 run", "3.000 ± 0.000 (6)", "4.000 ± 0.000 (6)"] in page.rows


def test_memories_probed_by_an_evaluation_are_shown_by_turn(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "a", {0}, probe=PROBE)
    page = write_report(tmp_path, tmp_path / "a")
    assert ["turn", "2"] in page.rows
    assert ["A a: P_mem", "0.750 ± 0.000 (6)"] in page.rows


def test_an_interrupted_evaluation_is_shown_as_such(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "a", {0}, finished=False)
    evaluations, runs = read_runs([tmp_path / "a"])
    assert "so only over the samples so far: A." in sections(evaluations, runs)[0].note


def test_the_page_needs_nothing_and_takes_names_as_text(tmp_path: Path) -> None:
    folder = tmp_path / "<script>alert(1)<&script>"
    write_evaluation(folder, {0, 1}, failed=(2,), text=HOSTILE, settings={"model": {"name": NAME}})
    write_evaluation(tmp_path / "b", {0, 1}, text=HOSTILE)
    page = write_report(tmp_path, folder, tmp_path / "b", write_training_run(tmp_path / "run"))
    assert page.references == []
    assert page.handlers == []
    assert page.comments == []
    assert page.raw["script"] == []
    # As much as our templates and charts have; a name made into markup would add to it.
    known = {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "h1",
        "h2",
        "section",
        "p",
        "div",
        "table",
    }
    known |= {
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "figure",
        "figcaption",
        "ul",
        "li",
        "span",
        "details",
    }
    known |= {"summary", "svg", "g", "line", "text", "circle", "polygon", "polyline"}
    assert {tag for tag, _ in page.elements} <= known
    assert rows_of(page, "A")[0][1] == "<script>alert(1)<&script>"


@pytest.mark.parametrize("make", ["nothing", "empty", "no samples"])
def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, make: str) -> None:
    folder = tmp_path / "x"
    if make != "nothing":
        folder.mkdir()
    if make == "no samples":
        (folder / "settings.json").write_text("{}")
        (folder / "samples.jsonl").write_text("")
    result = runner.invoke(app, [str(folder), "--out", str(tmp_path / "r.html")])
    assert result.exit_code == 1
    said = "holds no sample yet" if make == "no samples" else "neither the folder of an evaluation"
    assert said in re.sub(r"\s+", " ", result.output)
    assert not (tmp_path / "r.html").exists()


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_opens_in_a_browser(tmp_path: Path, width: int) -> None:
    write_evaluation(tmp_path / "a", {0, 2}, text=HOSTILE, settings={"model": {"name": NAME}})
    write_report(tmp_path, tmp_path / "a", write_training_run(tmp_path / "run"))
    with browsing() as browser:
        browser.open(tmp_path / "out" / "report.html", width=width)
        assert browser.complaints == []
        assert browser.run("document.querySelectorAll('svg').length") == 8
        assert browser.run("getComputedStyle(document.querySelector('svg .line')).strokeWidth") == "2px"
        assert browser.run("document.documentElement.scrollWidth") <= width
