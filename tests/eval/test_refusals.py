"""Exit 0 is for something that was answered: runs in which everything failed end with the cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval.cli import app
from eval.errors import EvalError
from eval.refusals import ALIKE, Refusals, check_any_answered
from tests.eval.support import FakeEndpoint, serving, write_questions
from tests.eval.test_cli import command, evaluate, plain, runner

REFUSED = {"cause": "status_401", "message": "HTTP 401: no key"}


def sample(number: int, failure: dict[str, str] | None) -> dict[str, Any]:
    return {"id": number, "failure": failure}


def feed(failures: list[dict[str, str] | None]) -> list[int]:
    """Which samples were written, in order."""
    refusals = Refusals()
    written = [
        each["id"] for n, failure in enumerate(failures) for each in refusals.passed(sample(n, failure))
    ]
    return written + [each["id"] for each in refusals.rest()]


def test_the_same_refusal_of_the_first_questions_ends_the_run_and_writes_none() -> None:
    refusals = Refusals()
    for number in range(ALIKE - 1):
        assert refusals.passed(sample(number, REFUSED)) == []
    with pytest.raises(
        EvalError, match=rf"the first {ALIKE} questions failed .*no key.*--api-key-env.*no further one"
    ):
        refusals.passed(sample(ALIKE, REFUSED))


@pytest.mark.parametrize(
    "failures",
    [
        [REFUSED] * (ALIKE - 1),  # fewer questions than that
        [None, *[REFUSED] * 20],
        [*[REFUSED] * (ALIKE - 1), None, *[REFUSED] * 20],
        [
            {"cause": "status_400", "message": f"{n} tokens are too many"} for n in range(20)
        ],  # of each question its own
        [{"cause": "status_429", "message": "busy"}] * 20,  # may pass
        [{"cause": "timeout", "message": "no answer"}] * 20,
        [{"cause": "no_document", "message": "none"}] * 20,
    ],
)
def test_any_other_failures_are_written_in_their_order_and_the_run_goes_on(failures: list[Any]) -> None:
    assert feed(failures) == list(range(len(failures)))


def test_all_failed_names_the_main_cause_its_words_and_the_others() -> None:
    known = [("timeout", "no answer"), *[("status_404", "no such model")] * 2]
    with pytest.raises(EvalError) as caught:
        check_any_answered(known)
    assert str(caught.value) == (
        "all 3 questions failed (status_404 2, timeout 1); status_404: no such model (check --endpoint, --model and --api)"
    )
    check_any_answered([*known, None])
    check_any_answered([])


@pytest.mark.parametrize(
    ("count", "status", "remedy"),
    [(4, 401, "put a valid key"), (30, 400, "takes no such request"), (30, 404, "check --endpoint")],
)
def test_a_run_that_was_refused_everything_exits_with_1_and_the_same_command_goes_on(
    tmp_path: Path, count: int, status: int, remedy: str
) -> None:
    with serving(FakeEndpoint()) as fake:
        fake.refusal = b'{"error": {"message": "Unsupported parameter: max_tokens"}}'
        fake.trouble = lambda number, prompt: status
        words = ["--api", "chat", "--concurrency", "2"]
        command(fake, tmp_path, "out")
        write_questions(tmp_path / "many.parquet", count)
        words += ["--data", str(tmp_path / "many.parquet")]
        code, text = evaluate(fake, tmp_path, "out", *words)
        assert code == 1, text
        assert f"status_{status}" in text
        assert "Unsupported parameter: max_tokens" in text
        assert remedy in text
        assert len(fake.requests) <= ALIKE + 2
        assert not (tmp_path / "out" / "summary.json").exists()
        fake.trouble = lambda number, prompt: None
        code, text = evaluate(fake, tmp_path, "out", *words)
        assert code == 0, text
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["failed"] == 0


def test_what_was_answered_before_the_end_stays_and_some_failures_are_said(tmp_path: Path) -> None:
    with serving(FakeEndpoint()) as fake:
        fake.trouble = lambda number, prompt: None if "Question 2?" in prompt else 401
        code, text = evaluate(fake, tmp_path, "out", "--api", "chat", "--concurrency", "1")
        assert code == 0, text
        assert "status_401 5" in text
        code, text = evaluate(
            fake, tmp_path, "dead", "--api", "chat", "--concurrency", "1", "--questions", "1", "--seed", "1"
        )
    assert code == 1
    folders = ["compare", str(tmp_path / "out"), str(tmp_path / "dead")]
    assert runner.invoke(app, folders).exit_code == 1


def test_a_report_on_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run" / "trajectories").mkdir(parents=True)
    result = runner.invoke(app, ["report", str(tmp_path / "run"), "--out", str(tmp_path / "x.html")])
    assert result.exit_code == 1
    assert "nothing to show" in plain(result.output)
    assert not (tmp_path / "x.html").exists()
