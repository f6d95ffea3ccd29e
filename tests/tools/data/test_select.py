"""Selection by pass rate: over runs that differ in their seed alone, by answers and not by failures, without a look at the held-out set."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mempo.task import Reference, Task
from tools.data.cli import app
from tools.data.schema import QuestionRow, read_rows, write_rows
from tools.hashing import file_sha256

QUESTIONS, RUNS = 24, 8
Verdict = Callable[
    [int, int], bool | str
]  # of a question by its number and of a run: right or not, or why it failed


def in_the_middle(question: int, run: int) -> bool:
    """A third is always right, a third in half of the runs, a third never."""
    return question % 3 == 0 or (question % 3 == 1 and run < RUNS // 2)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "all" / "train.parquet"
    write_rows(
        path,
        (
            QuestionRow(Task(f"q{n}", f"Who is {n}?"), Reference([["Ann"]]), "hotpotqa", "train", n)
            for n in range(QUESTIONS)
        ),
    )
    return path


def settings(data: Path, seed: int | None, temperature: float = 1.0) -> dict[str, Any]:
    return {
        "version": 2,
        "model": {"name": "m"},
        "api": "completions",
        "data": {"sha256": file_sha256(data), "questions": QUESTIONS, "rows_sha256": "0"},
        "agent": {"name": "chunk_memory", "max_turns": 5},
        "sampling": {"temperature": temperature, "seed": seed},
        "remarks": {"api": f"run {seed}"},
    }


def sample(question: int, verdict: bool | str) -> dict[str, Any]:
    failed = isinstance(verdict, str)
    return {
        "id": f"q{question}",
        "em_each": [verdict is True],
        "failure": {"cause": verdict, "message": ""} if failed else None,
    }


def write_run(folder: Path, given: dict[str, Any], verdict: Callable[[int], bool | str]) -> Path:
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(given))
    lines = [json.dumps(sample(question, verdict(question))) for question in range(QUESTIONS)]
    (folder / "samples.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def write_runs(folder: Path, data: Path, verdict: Verdict) -> list[Path]:
    return [
        write_run(folder / f"s{run}", settings(data, run), lambda question, run=run: verdict(question, run))  # type: ignore[misc]
        for run in range(RUNS)
    ]


def select(data: Path, runs: list[Path], out: Path, *more: str) -> tuple[int, str]:
    words = ["select", "--data", str(data), *(f"--run={run}" for run in runs), "--out", str(out)]
    result = CliRunner().invoke(app, [*words, "--train", "4", "--held-out", "6", *more])
    return result.exit_code, result.output


def manifest(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / "manifest.json").read_text()))


def test_questions_of_the_middle_are_kept_in_a_frozen_order(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs", data, in_the_middle)
    for out in ("x", "y"):
        code, text = select(data, runs, tmp_path / out)
        assert code == 0, text
    for name in ("ids.json", "train.parquet", "validation.parquet", "manifest.json"):
        assert (tmp_path / "x" / name).read_bytes() == (tmp_path / "y" / name).read_bytes()
    kept = json.loads((tmp_path / "x" / "ids.json").read_text())
    assert set(kept["pass_rate"].values()) == {0.5}
    for split, size in (("train", 4), ("validation", 6)):
        rows = read_rows(tmp_path / "x" / f"{split}.parquet")
        assert [row.task.id for row in rows] == kept[split]
        assert [(row.split, row.index) for row in rows] == [(split, index) for index in range(size)]
    assert {int(name[1:]) % 3 for name in kept["train"]} == {1}
    assert not set(kept["train"]) & set(kept["validation"])


def test_the_held_out_questions_are_the_same_whatever_the_results(data: Path, tmp_path: Path) -> None:
    verdicts: dict[str, Verdict] = {
        "middle": in_the_middle,
        "inverted": lambda question, run: not in_the_middle(question, run),
        # now the always right ones are in the middle, and the middle ones never right
        "others": lambda question, run: question % 3 == 0 and run < RUNS // 2,
    }
    ids = {}
    for name, verdict in verdicts.items():
        runs = write_runs(tmp_path / name, data, verdict)
        code, text = select(data, runs, tmp_path / "out" / name)
        assert code == 0, text
        ids[name] = json.loads((tmp_path / "out" / name / "ids.json").read_text())
    assert ids["middle"]["validation"] == ids["inverted"]["validation"] == ids["others"]["validation"]
    assert not set(ids["middle"]["train"]) & set(ids["others"]["train"])  # the results did decide something


def test_a_failed_sample_is_no_answer(data: Path, tmp_path: Path) -> None:
    def half_failed(question: int, run: int) -> bool | str:
        return True if run < RUNS // 2 else "connection"

    code, text = select(data, write_runs(tmp_path / "runs", data, half_failed), tmp_path / "out")
    assert code == 1
    told = " ".join(text.split())
    assert f"0 of 4 with 8 answers and a pass rate from 0.1 to 0.9 (left out: {QUESTIONS - 6} failed" in told
    assert f"failed samples: {QUESTIONS * RUNS // 2} connection" in told
    assert "--retry-failed" in told
    # with four answers asked for, every question is always right
    code, text = select(
        data, [tmp_path / "runs" / f"s{n}" for n in range(8)], tmp_path / "out", "--pass-at=4"
    )
    assert code == 1
    assert f"(left out: {QUESTIONS - 6} above_high;" in " ".join(text.split())


def test_every_question_is_accounted_for(data: Path, tmp_path: Path) -> None:
    def verdict(question: int, run: int) -> bool | str:
        if question % 12 == 1 and run == 0:
            return "timeout"
        return in_the_middle(question, run)

    runs = write_runs(tmp_path / "runs", data, verdict)
    lines = (runs[3] / "samples.jsonl").read_text().splitlines(keepends=True)
    (runs[3] / "samples.jsonl").write_text("".join(line for line in lines if '"q4"' not in line))
    code, text = select(data, runs, tmp_path / "out", "--held-out", "1", "--model-revision", "abc123")
    assert code == 0, text
    found = manifest(tmp_path / "out")
    counts = found["counts"]
    held_out = int(json.loads((tmp_path / "out" / "ids.json").read_text())["validation"][0][1:])
    rest = [question for question in range(QUESTIONS) if question != held_out]
    failed = [question for question in rest if question % 12 == 1]
    fitting = [
        question for question in rest if question % 3 == 1 and question != 4 and question not in failed
    ]
    assert counts["left_out"] == {
        "failed": len(failed),
        "few_answers": int(4 in rest),
        "below_low": sum(question % 3 == 2 for question in rest),
        "above_high": sum(question % 3 == 0 for question in rest),
    }
    assert counts["fitting"] == len(fitting)
    assert counts["questions"] == 1 + sum(counts["left_out"].values()) + counts["fitting"]
    assert counts["failed_samples"] == {"timeout": 2}
    assert f"{len(failed)} failed" in text
    assert found["evaluations"] == {
        "version": 2,
        "model": {"name": "m", "revision": "abc123"},
        "api": "completions",
        "data": {"sha256": file_sha256(data), "questions": QUESTIONS, "rows_sha256": "0"},
        "agent": {"name": "chunk_memory", "max_turns": 5},
        "sampling": {"temperature": 1.0, "seeds": list(range(RUNS))},
    }
    inputs = {entry["sha256"] for entry in found["inputs"]}
    assert inputs == {file_sha256(path) for path in (data, *(run / "samples.jsonl" for run in runs))}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sampling": {"temperature": 0.0, "seed": None}}, "ran at temperature 0, .* --seed each"),
        (
            {"sampling": {"temperature": 1.0, "seed": 7}},
            "have the same settings, --seed 7 too, .* another --seed",
        ),
    ],
)
def test_runs_that_repeat_each_other_are_refused(
    change: dict[str, Any], told: str, data: Path, tmp_path: Path
) -> None:
    runs = [
        write_run(tmp_path / f"s{n}", settings(data, n) | change, lambda question: question % 2 == 0)
        for n in range(2)
    ]
    assert_refused(data, runs, f"s0 and .*s1 {told}")
    # one run repeats nothing; it only has too few answers
    assert "18 few_answers" in select(data, runs[:1], tmp_path / "out")[1]


def test_a_folder_that_is_given_twice_is_refused(data: Path, tmp_path: Path) -> None:
    (run, other, *_) = write_runs(tmp_path / "runs", data, in_the_middle)
    assert_refused(data, [run, other, other / ".." / "s0"], "s0 is given twice: give every run once")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": {"name": "n"}}, r"differ in model.name \('m' and 'n'\): .* --seed alone$"),
        ({"model": {"sha256": "1"}}, r"differ in model.name .*, model.sha256 .* --seed alone$"),
        ({"agent": {"name": "chunk_memory", "max_turns": 9}}, r"differ in agent.max_turns \(5 and 9\)"),
        ({"sampling": {"temperature": 0.7, "seed": 1}}, r"differ in sampling.temperature \(1.0 and 0.7\)"),
        ({"data": {"sha256": "1"}}, r"differ in .*data.sha256"),
    ],
)
def test_runs_that_differ_in_more_than_the_seed_are_refused(
    change: dict[str, Any], told: str, data: Path, tmp_path: Path
) -> None:
    runs = write_runs(tmp_path / "runs", data, in_the_middle)
    (runs[1] / "settings.json").write_text(json.dumps(settings(data, 1) | change))
    assert_refused(data, runs, f"s0 and .*s1 {told}")


def test_questions_drawn_anew_with_every_seed_are_named(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs", data, in_the_middle)
    given = settings(data, 1)
    given["data"]["rows_sha256"] = "1"
    (runs[1] / "settings.json").write_text(json.dumps(given))
    assert_refused(data, runs, "differ in data.rows_sha256 .*--questions draws other ones with every seed")


def test_runs_over_another_file_are_refused(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs", data, in_the_middle)
    other = tmp_path / "other" / "train.parquet"
    write_rows(other, read_rows(data)[:-1])
    assert_refused(
        other, runs, "s0 evaluated another file than .*other/train.parquet .* give --data the file"
    )


def test_folders_that_are_no_evaluation_are_named(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs", data, in_the_middle)
    (runs[2] / "settings.json").write_text('{"model": {"name": "m"}}')
    assert_refused(data, runs, r"s2: no settings.json of an evaluation \(sampling.seed, .* is missing\)")
    (runs[2] / "settings.json").unlink()
    assert_refused(data, runs, "s2: no settings.json of an evaluation .* give the --out folder")


def test_the_folder_of_the_data_is_not_written_to(data: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs", data, in_the_middle)
    before = data.read_bytes()
    code, text = select(data, runs, data.parent)
    assert (code, data.read_bytes()) == (1, before)
    assert "is the folder of --data: choose another one" in " ".join(text.split())
    assert_refused(tmp_path / "none.parquet", runs, "none.parquet: no such file")


def assert_refused(data: Path, runs: list[Path], told: str) -> None:
    out = data.parent / "out"
    code, text = select(data, runs, out)
    assert code == 1
    assert re.search(told, " ".join(text.split())), text
    assert not out.exists()
