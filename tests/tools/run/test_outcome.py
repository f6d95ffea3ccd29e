"""From metrics and evaluations to summary, report and readable trajectories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.run.checkpoint import latest, trained_model
from tools.run.errors import RunError
from tools.run.metrics import MetricsFollower, read_steps, reward_change
from tools.run.progress import step_line
from tools.run.report import final_lines, write_report
from tools.run.samples import write_readable
from tools.run.summary import summarize
from tools.run.training import failure_text

STEPS: list[dict[str, Any]] = [
    {
        "step": step,
        "rows/produced": 10,
        "rows/transferred": 10,
        "rows/consumed": 10,
        "memory/turns": 9,
        "memory/scored": 6,
        "memory/no_signal": 2,
        "memory/unclosed": 1,
        "memory/nonzero_share": 0.25 if step == 1 else 0.5,
        "trajectory/reward_mean": step / 10,
        "failures/total": 1,
        "failures/timeout": 1,
        "timing_s/step": 4.0,
        "timing_s/gen": 2.0,
        "timing_s/memory_scoring": 1.0,
    }
    for step in range(1, 11)
]
BEFORE = {mode: {"em": 0.2, "em_se": 0.02, "f1": 0.3, "n": 300} for mode in ("history", "window1")}
AFTER = {mode: {"em": 0.4, "em_se": 0.03, "f1": 0.5, "n": 300} for mode in ("history", "window1")}
PAIRS = {mode: {"only_before": 5, "only_after": 65, "p": 1e-9, "both": 55} for mode in ("history", "window1")}


def summary() -> dict[str, Any]:
    return summarize(
        STEPS, wall_s=61.04, stage_seconds={"train": 40.0}, before=BEFORE, after=AFTER, pairs=PAIRS
    )


def test_rows_that_dynamic_sampling_dropped_are_in_the_summary_and_in_words() -> None:
    counts = {"rows/dropped": 4, "dropped/groups": 1, "dropped/rollouts": 2, "dropped/equal": 1}
    steps = [step | counts | {"dropped/reward_mean": 0.5} for step in STEPS]
    found = summarize(steps, wall_s=1.0, stage_seconds={}, before={}, after={}, pairs={})
    assert found["rows"]["dropped"] == 40
    assert found["dropped"] == {"groups": 10, "rollouts": 20, "equal": 10}
    assert "dropped 40" in final_lines(found)[0]
    assert "dropped" not in final_lines(summary())[0]


def test_the_summary_holds_every_promised_key() -> None:
    found = summary()
    assert (found["steps"], found["wall_s"]) == (10, 61.0)
    assert {key: found["rows"][key] for key in ("produced", "transferred", "consumed")} == dict.fromkeys(
        ("produced", "transferred", "consumed"), 100
    )
    assert (found["memory"]["scored"], found["memory"]["no_signal"], found["memory"]["unclosed"]) == (
        60,
        20,
        10,
    )
    assert found["memory"]["steps_with_nonzero_share_30"] == 9
    assert found["failures"] == {"total": 10, "timeout": 10}
    assert found["reward"]["first5"] == pytest.approx(0.3)
    assert found["reward"]["last5"] == pytest.approx(0.8)
    assert found["reward"]["by_step"] == pytest.approx([step / 10 for step in range(1, 11)])
    # sample variance of 0.1..0.5 is 0.025; two means of five
    assert found["reward"]["se"] == pytest.approx((2 * 0.025 / 5) ** 0.5)
    assert found["timing"]["gen_share"] == 0.5
    assert found["timing"]["memory_scoring_share"] == 0.25
    assert found["eval"]["after"]["window1"] == AFTER["window1"]
    assert found["eval"]["paired"]["history"] == {"only_before": 5, "only_after": 65, "p": 1e-9}


def test_the_summary_holds_the_first_and_the_last_ten_rewards() -> None:
    steps = [{"step": step, "trajectory/reward_mean": step / 100} for step in range(1, 41)]
    found = summarize(steps, wall_s=1, stage_seconds={}, before={}, after={}, pairs={})["reward"]
    assert found["first10"] == pytest.approx(0.055)  # the mean of 0.01 to 0.10
    assert found["last10"] == pytest.approx(0.355)  # of 0.31 to 0.40


def test_answers_without_a_box_are_in_the_summary_where_answers_are_boxed() -> None:
    boxed = {"boxed_exact": 0.1, "boxed_em": 0.2, "lenient": 0.4, "missing_box": 17}
    after = {"rewritten": {"em": 0.2, "n": 300, **boxed}}
    found = summarize([], wall_s=1, stage_seconds={}, before={}, after=after, pairs={})
    assert found["eval"]["after"]["rewritten"] == after["rewritten"]


def test_a_failure_may_be_called_anything() -> None:
    """A cause is a metric's name, and an agent of a user's own chooses it."""
    steps = [{"step": 1, "failures/total": 3, "failures/no_mean": 2, "failures/reward_mean": 1}]
    found = summarize(steps, wall_s=1, stage_seconds={}, before={}, after={}, pairs={})
    assert found["failures"] == {"total": 3, "no_mean": 2, "reward_mean": 1}


def test_a_run_without_evaluation_or_steps_still_has_a_summary(tmp_path: Path) -> None:
    found = summarize([], wall_s=1, stage_seconds={}, before={}, after={}, pairs={})
    assert (found["steps"], found["rows"]["produced"], found["reward"]["first5"]) == (0, 0, None)
    write_report(tmp_path / "report.html", "x", found, [])
    assert "0 steps" in final_lines(found)[0]


def test_reward_change_compares_halves_of_a_short_run() -> None:
    assert reward_change([0.0, 1.0])["se"] is None
    assert reward_change([0.0, 0.2, 0.6, 1.0]) == {
        "first5": pytest.approx(0.1),
        "last5": pytest.approx(0.8),
        "se": pytest.approx((0.02 / 2 + 0.08 / 2) ** 0.5),
    }


def test_the_report_escapes_and_draws(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_report(page, "<b>", summary(), STEPS)
    text = page.read_text()
    assert "&lt;b&gt;" in text
    assert text.count("<polyline") >= 2
    assert "window1" in text


@pytest.mark.parametrize(
    ("reference", "drawn"), [("history", "whole history"), ("previous_memory", "previous memory")]
)
def test_the_report_draws_the_reference_under_its_own_name(
    tmp_path: Path, reference: str, drawn: str
) -> None:
    metrics = {"memory/p_memory": 0.5, "memory/p_reference": 0.25, f"memory/reference/{reference}": 1}
    steps = [step | metrics for step in STEPS]
    write_report(tmp_path / "report.html", "x", summary(), steps)
    text = (tmp_path / "report.html").read_text()
    assert f">{drawn}</span>" in text
    assert f"<title>{drawn}</title>" in text
    assert [name in text for name in ("whole history", "previous memory")].count(True) == 1
    assert "P_mem 0.50  P_ref 0.25" in step_line(steps[0], 10)


def test_a_run_has_a_count_of_the_questions_that_its_gate_silenced() -> None:
    steps = [step | {"memory/flat_groups": 1, "memory/gated_groups": 2} for step in STEPS]
    found = summarize(steps, wall_s=1, stage_seconds={}, before={}, after={}, pairs={})["memory"]
    assert (found["flat_groups"], found["gated_groups"]) == (10, 20)
    assert summary()["memory"]["gated_groups"] == 0, "of a run of an earlier version"


def test_metrics_are_followed_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    follower = MetricsFollower(path)
    assert follower.new() == []
    path.write_text('{"step": 1}\n{"step"')
    assert follower.new() == [{"step": 1}]
    with path.open("a") as file:
        file.write(": 2}\n")
    assert follower.new() == [{"step": 2}]
    path.write_text('{"step": 1}\n')  # taken back on resume
    assert follower.new() == [{"step": 1}]


def test_the_last_record_of_a_step_counts_and_torn_lines_do_not(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 2, "a": 1}\n{"step": 1}\n{"step": 2, "a": 3}\n{"st')
    assert read_steps(path) == [{"step": 1}, {"step": 2, "a": 3}]


def test_trajectories_become_readable_once(tmp_path: Path) -> None:
    turn = {
        "memory_text": "Ann wrote X",
        "thought": "look",
        "action": {"kind": "search", "text": "X", "problem": None},
        "observation": "(1) X\nby Ann",
    }
    record = {
        "question": "Who wrote X?",
        "answers": [["Ann", "Anne"]],
        "answer": None,
        "reward": 0.0,
        "stop": "max_turns",
        "session": "a_0",
        "memory": [{"turn": 0, "status": "first"}],
        "trajectory": {"turns": [turn]},
    }
    (tmp_path / "step_1.jsonl").write_text(json.dumps(record) + "\n")
    assert write_readable(tmp_path) == 1
    text = (tmp_path / "step_1.md").read_text()
    assert all(
        part in text
        for part in ("Who wrote X?", "Ann / Anne", "Ann wrote X", "search: X", "> by Ann", "first")
    )
    assert write_readable(tmp_path) == 0


def test_the_latest_checkpoint_is_the_one_that_verl_resumes_from(tmp_path: Path) -> None:
    assert latest(tmp_path) is None
    for step in (5, 10):
        (tmp_path / f"global_step_{step}" / "actor" / "huggingface").mkdir(parents=True)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("5\n")
    found = latest(tmp_path)
    assert found is not None
    assert found.step == 5
    with pytest.raises(RunError, match="hf_model"):
        trained_model(tmp_path)
    (found.model / "model.safetensors").touch()
    assert trained_model(tmp_path).step == 5


def test_a_failure_is_told_by_its_cause_and_not_by_an_earlier_one(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("training stopped: old cause\n")
    mark = log.stat().st_size
    with log.open("a") as file:
        file.write("noise\nValueError: no such key\n")
    assert failure_text(log, mark).startswith("ValueError: no such key")
    with log.open("a") as file:
        file.write("training stopped: step 3: 4 of 4 sessions failed\n")
    assert failure_text(log, mark) == "step 3: 4 of 4 sessions failed"
