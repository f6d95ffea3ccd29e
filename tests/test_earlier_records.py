"""What a version before the chunk reader wrote still loads and shows.

`tests/recorded/*_before_chunk_reader.jsonl` came out of that version's own code: two trajectories of a training step (history
and window:1) and a sample of an evaluation. They know neither a memory frame, nor `shown_memory`, nor a document, nor
digests of rows.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval.report_training import training
from eval.run_folder import read_records, read_runs
from eval.sample import trajectory_of
from mempo.row_digest import row_digest
from mempo.step_metrics import reference_name
from mempo.trajectory import Trajectory
from tests.parsed_page import ParsedPage
from tools.run.metrics import MetricsFollower, read_steps
from tools.run.replay_cli import app as replay_app
from tools.run.samples import write_readable
from tools.view.cli import app as view_app

RECORDED = Path(__file__).parent / "recorded"
STEP, SAMPLES = (RECORDED / f"{name}_before_chunk_reader.jsonl" for name in ("step", "samples"))
ADDED = {"memory_frame", "shown_memory", "document", "row_digests"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "trajectories"
    folder.mkdir(parents=True)
    shutil.copy(STEP, folder / "step_3.jsonl")
    return folder.parent


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    folder = tmp_path / "evaluation"
    folder.mkdir()
    shutil.copy(SAMPLES, folder / "samples.jsonl")
    (folder / "settings.json").write_text(json.dumps({"version": 2, "agent": {"context": "window:1"}}))
    return folder


def test_the_records_are_of_that_version() -> None:
    for path in (STEP, SAMPLES):
        assert not any(f'"{name}"' in path.read_text(encoding="utf-8") for name in ADDED)


def test_a_training_record_gives_its_trajectory_and_its_rows() -> None:
    history, window = (Trajectory.from_record(line["trajectory"]) for line in lines(STEP))
    assert (str(history.context), str(window.context)) == ("history", "window:1")
    for trajectory in (history, window):
        assert trajectory.memory_frame is None
        assert {turn.shown_memory for turn in trajectory.turns} == {None}
        assert trajectory.task.document == ""
        assert trajectory.final_answer() == "Mira Voss"
    assert (len(history.rows()), len(window.rows())) == (1, 2)
    assert history.memory_context(1) == window.memory_context(1) != history.full_context(1)


def test_a_sample_gives_its_trajectory_with_its_prompts() -> None:
    (sample,) = lines(SAMPLES)
    trajectory = trajectory_of(sample)
    assert trajectory is not None
    assert len(trajectory.rows()) == 2
    assert trajectory.turns == Trajectory.from_record(lines(STEP)[1]["trajectory"]).turns


@pytest.mark.parametrize("kind", ["run", "evaluation"])
def test_the_viewer_shows_them(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    folder = request.getfixturevalue(kind)
    records = read_records(folder)
    assert len(records) == (2 if kind == "run" else 1)
    for record in records:
        assert record.right
        assert [turn.memory for turn in record.turns] == ["Nothing.", "Mira Voss."]
        assert [turn.action for turn in record.turns] == ["search", "answer"]
    if kind == "run":
        assert [turn.score and turn.score.reward for turn in records[0].turns] == [None, 0.25]
    result = CliRunner().invoke(view_app, [str(folder), "--out", str(tmp_path / "view.html")])
    assert result.exit_code == 0, result.output
    assert "By Mira Voss." in "".join(
        ParsedPage((tmp_path / "view.html").read_text(encoding="utf-8")).raw["script"]
    )


@pytest.mark.parametrize(
    ("first", "named"),
    [(16, "whole history"), (0, "previous memory")],
)
def test_the_curve_of_what_was_called_p_full_whatever_it_was_is_drawn_and_named(
    run: Path, first: int, named: str
) -> None:
    path, old = run / "metrics.jsonl", {"memory/p_memory": 0.5, "memory/p_full": 0.25, "memory/first": first}
    lines = [json.dumps({"step": step, **old}) for step in (1, 2)]
    # A run that went on under this version.
    reference = "history" if first else "previous_memory"
    new = {"memory/p_memory": 0.5, "memory/p_reference": 0.125, f"memory/reference/{reference}": 1}
    path.write_text("\n".join([*lines, json.dumps({"step": 3, **new}), ""]))
    for steps in (read_steps(path), MetricsFollower(path).new(), read_runs([run])[1][0].steps):
        assert [step["memory/p_reference"] for step in steps] == [0.25, 0.25, 0.125]
        assert reference_name(steps) == named
    section = training(read_runs([run])[1])
    assert section is not None
    assert [line.name for line in section.charts[0].series] == ["run: memory alone", f"run: {named}"]


def test_they_are_written_down_readably(run: Path) -> None:
    assert write_readable(run / "trajectories") == 1
    text = (run / "trajectories" / "step_3.md").read_text(encoding="utf-8")
    assert text.count("memory: Mira Voss.") == 2


def test_a_replay_rebuilds_their_rows_and_says_that_it_compared_nothing(run: Path) -> None:
    result = CliRunner().invoke(replay_app, ["3", "--run", str(run)])
    assert "step 3: 2 trajectories, 3 rows rebuilt, 0 trajectories differ" in result.output
    assert "2 trajectories cannot be compared: the run is of an earlier version" in result.output
    assert result.exit_code == 1


def test_a_replay_still_finds_a_record_that_breaks_the_rules(run: Path) -> None:
    path = run / "trajectories" / "step_3.jsonl"
    records = lines(path)
    records[0]["trajectory"]["turns"][1]["prompt_ids"].pop()
    for record in records[1:]:
        rows = Trajectory.from_record(record["trajectory"]).rows()
        record["row_digests"] = [
            row_digest(row.prompt_ids, row.response_ids, row.response_mask, row.logprobs, row.memory_spans)
            for row in rows
        ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = CliRunner().invoke(replay_app, ["3", "--run", str(run)])
    assert result.exit_code == 1
    assert "u_0: trajectory 'q1', turn 2: the prompt is not the history context" in result.output
    assert "2 rows rebuilt, 1 trajectories differ" in result.output
