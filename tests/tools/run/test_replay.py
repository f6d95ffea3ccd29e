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
