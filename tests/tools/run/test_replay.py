"""Rows are rebuilt from stored trajectories by the converter of training, and any difference is named."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mempo.row_digest import row_digest
from mempo.trajectory import Trajectory
from tests.mempo.agents.test_chunk_memory import play as read
from tests.mempo.support import ANSWER_TURN, SEARCH_TURN, TASK, ScriptedModel, make_agent, small_tokens
from tools.run.replay_cli import app


def searched(context: str) -> Trajectory:
    tokens = small_tokens()
    return asyncio.run(
        make_agent(tokens, context=context).run(TASK, ScriptedModel(tokens, [SEARCH_TURN, ANSWER_TURN]))
    )


def line(trajectory: Trajectory) -> dict[str, object]:
    digests = [
        row_digest(row.prompt_ids, row.response_ids, row.response_mask, row.logprobs, row.memory_spans)
        for row in trajectory.rows()
    ]
    return {"session": "u_0", "row_digests": digests, "trajectory": trajectory.to_record()}


def replay(run: Path, lines: list[dict[str, object]]) -> tuple[int, str]:
    (run / "trajectories").mkdir(exist_ok=True)
    text = "".join(json.dumps(entry) + "\n" for entry in lines)
    (run / "trajectories" / "step_3.jsonl").write_text(text)
    result = CliRunner().invoke(app, ["3", "--run", str(run)])
    return result.exit_code, result.output


def test_rows_of_every_context_come_out_the_same(tmp_path: Path) -> None:
    trajectories = [
        searched("history"),
        searched("window:1"),
        read(small_tokens(), ["a", "b", "\\boxed{x}"])[0],
    ]
    code, text = replay(tmp_path, [line(trajectory) for trajectory in trajectories])
    assert code == 0, text
    assert "3 trajectories, 6 rows rebuilt, 0 trajectories differ" in text
    assert "is not known: " in text, "there is no metrics.jsonl"


def test_a_step_without_a_trajectory_is_no_success(tmp_path: Path) -> None:
    code, text = replay(tmp_path, [])
    assert (code, "holds no trajectory" in text) == (1, True)


def test_it_says_how_many_of_the_step_it_rebuilt_and_how_to_keep_all(tmp_path: Path) -> None:
    stored = [line(searched("window:1")), line(read(small_tokens(), ["a", "b", "\\boxed{x}"])[0])]
    steps = [
        {"step": 2, "trajectory/count": 2, "rows/transferred": 5},
        {"step": 3, "trajectory/count": 64, "rows/transferred": 288},
    ]
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text("".join(json.dumps(step) + "\n" for step in steps))
    code, text = replay(tmp_path, stored)
    assert code == 0
    assert "step 3: 2 of 64 trajectories, 5 of 288 rows rebuilt, 0 trajectories differ" in text
    assert "run.sample_trajectories=64 or more" in text
    metrics.write_text(json.dumps(steps[0] | {"step": 3}) + "\n")
    code, text = replay(tmp_path, stored)
    assert "step 3: 2 of 2 trajectories, 5 of 5 rows rebuilt, 0 trajectories differ" in text
    assert "sample_trajectories" not in text
    metrics.write_text(json.dumps({"step": 3}) + "\n")
    assert "is not known: " in replay(tmp_path, stored)[1]


def test_a_changed_bit_is_found(tmp_path: Path) -> None:
    stored = line(read(small_tokens(), ["a", "b", "\\boxed{x}"])[0])
    turns = stored["trajectory"]["turns"]  # type: ignore[index]
    turns[1]["logprobs"][0] += 1e-12
    code, text = replay(tmp_path, [stored])
    assert code == 1
    assert "u_0: row 1 differs" in text
    turns[2]["prompt_ids"].pop()
    assert "turn 3: the final prompt" in replay(tmp_path, [stored])[1]


@pytest.mark.parametrize("lines", [[{"session": "u_0"}], None])
def test_what_cannot_be_replayed_says_why(tmp_path: Path, lines: list[dict[str, object]] | None) -> None:
    if lines is None:
        result = CliRunner().invoke(app, ["3", "--run", str(tmp_path)])
        assert "the step was not run" in result.output
        return
    code, text = replay(tmp_path, lines)
    assert (code, "line 1 is not of this version" in text) == (1, True)
