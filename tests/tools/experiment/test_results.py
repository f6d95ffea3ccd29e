"""What an experiment keeps is small, says what follows from its runs, and is enough for the whole report."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.parsed_page import ParsedPage
from tests.tools.experiment import fake_run
from tests.tools.experiment.support import behave, experiment, plan_of, small
from tools.experiment.charts import curve_chart, seed_chart
from tools.experiment.collect import POINTS, by_turn, collect, curve, pack, question_scores, sizes_of
from tools.experiment.errors import ExperimentError
from tools.experiment.report import write_report
from tools.experiment.results import assemble, compared, headline, read_results, write_results
from tools.run.metrics import read_steps

ARMS = {"grpo": ["memory.weight=0"], "ours": [], "gain": ["memory.reference=previous_memory"]}


def record(seed: int, arm: str, questions: int = 400, steps: int = 32, share: float = 0.5) -> dict[str, Any]:
    """Of a run as large as those of the issue's experiments."""
    draw = random.Random(f"{seed}{arm}")
    sizes = [1 + (index % 4 == 3) for index in range(questions)]
    after = {}
    for mode in fake_run.MODES:
        each = [[draw.random() < share for _ in range(size)] for size in sizes]
        after[mode] = {
            "n": questions,
            "em": round(fmean(fmean(row) for row in each), 5),
            "failed": 0,
            "total_tokens": 312.25,
            "response_tokens": 81.5,
            "questions": f"hash{seed}",
            "objectives": "".join(map(str, sizes)),
            "right": pack([right for row in each for right in row]),
        }
    numbers = [round(draw.random(), 5) for _ in range(steps)]
    return {
        "status": "done",
        "causes": [],
        "shared": {},
        "steps": steps,
        "commit": "c0ffee" * 7,
        "outcomes": {f"eval.after.{mode}.em": after[mode]["em"] for mode in after}
        | {"train.reward.area": 0.5},
        "before": {mode: {"n": questions, "em": 0.4} for mode in after},
        "after": after,
        "curve": {"step": list(range(1, steps + 1))}
        | dict.fromkeys(("reward", "em", "p_memory", "p_reference", "memory_length"), numbers),
        "by_turn": {str(turn): {"p_memory": 0.5, "p_reference": 0.25, "n": 60} for turn in (2, 3, 4)},
        "failures": {"failures": {"total": 0}},
        "timing": {"wall_s": 301.5, "train_s": 240.25, "step_s": 7.5},
    }


def whole() -> dict[str, Any]:
    protocol = small(arms=ARMS, seeds=list(range(1, 9)))
    records = {
        (seed, arm): record(seed, arm, share=0.6 if arm == "ours" else 0.5) for seed, arm in protocol.runs()
    }
    return assemble(protocol, {}, records)


def test_the_record_of_a_run_is_what_its_folder_says(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "seed3-ours"
    assert fake_run.run(folder, 3, "ours") == 0
    found = collect(folder, fake_run.MODES)
    for mode in fake_run.MODES:
        summary = json.loads((folder / "eval" / "after_step_2" / mode / "summary.json").read_text())
        assert found["outcomes"][f"eval.after.{mode}.em"] == pytest.approx(summary["em"], abs=1e-5)
        assert fmean(question_scores(found["after"][mode])) == pytest.approx(summary["em"])
    assert found["curve"]["step"] == [1, 2] and found["curve"]["p_memory"] == [0.3, 0.4]
    assert found["outcomes"]["train.reward.area"] == pytest.approx(fmean(found["curve"]["reward"]), abs=1e-5)
    assert found["by_turn"] == {
        "2": {"p_memory": 0.3, "p_reference": 0.1, "n": 1},
        "3": {"p_memory": 0.6, "p_reference": 0.1, "n": 1},
    }
    assert found["commit"] == "c0ffee" and found["failures"] == {"failures": {"total": 1}}
    assert str(tmp_path) not in json.dumps(found)


def test_a_folder_without_a_finished_run_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "seed3-ours"
    fake_run.run(folder, 3, "ours")
    (folder / "eval" / "after_step_2" / "window1" / "samples.jsonl").unlink()
    with pytest.raises(ExperimentError, match="seed3-ours: its results cannot be read"):
        collect(folder, fake_run.MODES)


@pytest.mark.parametrize("sizes", [[1] * 5, [2] * 3, [1, 2, 1, 3], [1, 12]])
def test_packed_answers_come_back(sizes: list[int]) -> None:
    draw = random.Random(0)
    each = [[draw.random() < 0.5 for _ in range(size)] for size in sizes]
    packed = {
        "n": len(sizes),
        "objectives": sizes_of(sizes),
        "right": pack([right for row in each for right in row]),
    }
    assert question_scores(packed) == [fmean(row) for row in each]


def test_the_reference_has_a_curve_under_its_earlier_name_too(tmp_path: Path) -> None:
    lines = [{"step": 1, "memory/p_reference": 0.5}, {"step": 2, "memory/p_full": 0.25}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert curve(read_steps(tmp_path / "metrics.jsonl"))["p_reference"] == [0.5, 0.25]


def test_long_curves_are_averaged_in_blocks() -> None:
    steps = [{"step": step, "trajectory/reward_mean": float(step)} for step in range(1, 131)]
    found = curve(steps)
    assert found["step"] == [*range(3, 130, 3), 130]
    assert found["reward"][:2] == [2.0, 5.0] and found["reward"][-1] == 130.0
    assert len(found["step"]) <= POINTS and "em" not in found
    assert curve([]) == {"step": []}


def test_answer_probability_by_turn_is_of_the_last_quarter(tmp_path: Path) -> None:
    for step in range(1, 9):
        scores = [{"turn": 1, "status": "scored", "p_memory": step / 10, "p_reference": 0.0}]
        scores.append({"turn": 2, "status": "unclosed"})
        (tmp_path / f"step_{step}.jsonl").write_text(json.dumps({"memory": scores}) + "\n")
    assert by_turn(tmp_path, 8) == {"2": {"p_memory": 0.75, "p_reference": 0.0, "n": 2}}


def test_only_seeds_with_both_runs_are_compared() -> None:
    protocol = small(arms=ARMS, seeds=[1, 2, 3], fewer_seeds={"gain": [2, 3]})
    records = {(seed, arm): record(seed, arm) for seed, arm in protocol.runs()}
    for (seed, arm), value in records.items():
        value["outcomes"]["train.reward.area"] = 0.5 + (arm == "ours") * seed / 10
    records[3, "grpo"] = {"status": "failed", "causes": ["exit code 1"]}
    del records[2, "gain"]
    runs = assemble(protocol, {}, records)["runs"]
    found = compared(protocol, runs, "ours", "train.reward.area")
    assert (found["seeds"], found["planned"], found["difference"]) == (2, 3, pytest.approx(0.15))
    assert found["ci"][0] == pytest.approx(0.15 - 12.7062 * 0.05, abs=1e-4) and found["ci_nested"] is None
    none = compared(protocol, runs, "gain", "train.reward.area")
    assert none == {
        "seeds": 0, "planned": 2, "difference": None, "ci": None, "ci_nested": None, "verdict": "inconclusive",
    }  # fmt: skip


def test_arms_that_answered_other_questions_have_no_interval_over_questions() -> None:
    protocol = small()
    records = {(seed, arm): record(seed, arm) for seed, arm in protocol.runs()}
    assert assemble(protocol, {}, records)["primary"]["ours"]["ci_nested"] is not None
    records[1, "ours"]["after"]["window1"]["questions"] = "others"
    assert assemble(protocol, {}, records)["primary"]["ours"]["ci_nested"] is None


def test_the_verdict_is_one_sentence_on_every_arm() -> None:
    results = whole()
    assert results["primary"]["ours"]["verdict"] == "better"
    assert results["verdict"].startswith(
        "In eval.after.window1.em, against grpo with margin 0.05: ours better (+0."
    )
    assert "8 seeds); gain " in results["verdict"] and "\n" not in results["verdict"]
    protocol = small()
    partial = assemble(protocol, {}, {(1, "grpo"): record(1, "grpo"), (1, "ours"): record(1, "ours")})
    assert partial["verdict"].startswith("Provisional, 2 of 4 runs outstanding: in ")
    assert "no interval, 1 seed)" in partial["verdict"]


def test_the_file_is_small_and_the_same_report_comes_of_it(tmp_path: Path) -> None:
    results = whole()
    file = tmp_path / "x.json"
    write_results(file, results)
    assert file.stat().st_size < 200_000
    assert len(file.read_text().splitlines()) == 24 + len(results) + 3  # one line for each run
    read = read_results(file)
    assert headline(read) == headline(results)
    assert set(headline(read)) == {"control", "primary", "verdict", "protocol_sha256"}
    write_report(results, tmp_path / "a.html", tmp_path / "a.md")
    write_report(read, tmp_path / "b.html", tmp_path / "b.md")
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()
    assert (tmp_path / "a.md").read_text() == (tmp_path / "b.md").read_text()


@pytest.mark.parametrize("what", ["verdict", "difference", "protocol", "outcome"])
def test_a_file_that_was_edited_is_refused(tmp_path: Path, what: str) -> None:
    results = json.loads(json.dumps(whole()))
    if what == "verdict":
        results["verdict"] = results["verdict"].replace("better", "far better")
    elif what == "difference":
        results["primary"]["ours"]["difference"] += 0.01
    elif what == "protocol":
        results["protocol"]["margin"] = 0.5
    else:
        results["runs"][1]["outcomes"]["eval.after.window1.em"] += 0.01
    write_results(tmp_path / "x.json", results)
    with pytest.raises(ExperimentError, match="does not follow from its own runs"):
        read_results(tmp_path / "x.json")


def test_what_is_no_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="is not there"):
        read_results(tmp_path)
    (tmp_path / "results.json").write_text('{"protocol": 3}')
    with pytest.raises(ExperimentError, match="not the results of an experiment"):
        read_results(tmp_path)


def test_the_page_shows_every_seed_curves_turns_costs_and_failures(tmp_path: Path) -> None:
    behave(tmp_path, seed2_ours=["crash"])
    protocol = small(notes=["Written <before> the runs."])
    results = experiment(plan_of(tmp_path, protocol)).run()
    write_report(results, tmp_path / "r.html", tmp_path / "r.md")
    page, markdown = (tmp_path / "r.html").read_text(), (tmp_path / "r.md").read_text()
    for text in (markdown, page):
        for part in (
            "Verdict",
            "Secondary outcomes",
            "Every seed",
            "Learning curves",
            "What memories hold",
            "Costs",
            "Runs",
        ):
            assert f"{part}" in text
        assert "out of memory" in text and protocol.sha256 in text and "memory.weight: 0 → 0.3" in text
    assert "Written &lt;before&gt; the runs." in page
    parsed = ParsedPage(page)
    assert parsed.references == [] and parsed.handlers == [] and parsed.raw["script"] == []
    assert next(row[:3] for row in parsed.rows if row[:2] == ["2", "ours"]) == ["2", "ours", "failed"]


def test_every_run_is_a_dot_at_its_seed() -> None:
    protocol = small(arms=ARMS, seeds=[5, 3])
    values = {"grpo": {5: 0.1, 3: 0.2}, "ours": {5: 0.3, 3: 0.4}, "gain": {3: 0.5}}
    chart = seed_chart(protocol, protocol.primary, values)
    assert str(chart.svg()).count("<circle") == 5
    assert [[round(point.x, 2) for point in series.points] for series in chart.series] == [
        [0.75, 1.75],
        [1, 2],
        [2.25],
    ]


def test_bands_are_standard_errors_over_seeds() -> None:
    protocol = small()
    records = {(seed, arm): record(seed, arm) for seed, arm in protocol.runs()}
    for (seed, arm), value in records.items():
        value["curve"] = {"step": [1, 2], "reward": [0.2 * seed, 0.5]} | (
            {"p_memory": [0.1, 0.2]} if arm == "ours" else {}
        )
    runs = assemble(protocol, {}, records)["runs"]
    chart = curve_chart(protocol, runs, "reward", "Training reward", "reward")
    assert chart is not None and [series.name for series in chart.series] == ["grpo", "ours"]
    point = chart.series[0].points[0]
    assert (point.y, point.low, point.high) == pytest.approx((0.3, 0.2, 0.4))
    only = curve_chart(protocol, runs, "p_memory", "P", "P")
    assert only is not None and [(series.name, series.colour) for series in only.series] == [("ours", 1)]
    assert curve_chart(protocol, runs, "p_reference", "P", "P") is None
