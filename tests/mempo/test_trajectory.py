"""Rows and contexts follow from the turns; a broken turn is an error that names it."""

import asyncio
import json

import pytest

from mempo.trajectory import ContextMode, Trajectory
from tests.mempo.support import (
    ANSWER_TURN,
    SEARCH_TURN,
    SECOND_TURN,
    TASK,
    ScriptedModel,
    make_agent,
    small_tokens,
)


def play(context: str) -> Trajectory:
    tokens = small_tokens()
    model = ScriptedModel(tokens, [SEARCH_TURN, SECOND_TURN, ANSWER_TURN])
    return asyncio.run(make_agent(tokens, context=context).run(TASK, model))


def test_history_gives_one_row_whose_mask_covers_what_the_model_wrote() -> None:
    trajectory = play("history")
    (row,) = trajectory.rows()
    written = [token for turn in trajectory.turns for token in turn.response_ids]
    kept = [token for token, mask in zip(row.response_ids, row.response_mask, strict=True) if mask]
    assert kept == written
    assert [lp for lp, mask in zip(row.logprobs, row.response_mask, strict=True) if mask] == [
        lp for turn in trajectory.turns for lp in turn.logprobs
    ]
    assert not any(lp for lp, mask in zip(row.logprobs, row.response_mask, strict=True) if not mask)
    assert row.prompt_ids == trajectory.turns[0].prompt_ids
    assert (row.prompt_ids + row.response_ids)[: len(trajectory.turns[2].prompt_ids)] == trajectory.turns[
        2
    ].prompt_ids


@pytest.mark.parametrize("context", ["history", "window:1", "window:2"])
def test_spans_of_the_rows_hold_the_memories(context: str) -> None:
    trajectory, tokens = play(context), small_tokens()
    found = {
        turn: tokens.decode(row.response_ids[start:end])
        for row in trajectory.rows()
        for turn, start, end in row.memory_spans
    }
    assert found == {
        index: f"<mem>\n{turn.memory_text}\n</mem>" for index, turn in enumerate(trajectory.turns)
    }


def test_a_windowed_context_gives_one_row_per_turn() -> None:
    trajectory = play("window:1")
    rows = trajectory.rows()
    assert len(rows) == 3
    assert [row.response_ids for row in rows] == [turn.response_ids for turn in trajectory.turns]
    assert all(all(row.response_mask) for row in rows)


def test_a_record_survives_json() -> None:
    trajectory = play("window:1")
    assert Trajectory.from_record(json.loads(json.dumps(trajectory.to_record()))) == trajectory


def test_logprobs_that_do_not_match_name_trajectory_and_turn() -> None:
    trajectory = play("history")
    trajectory.turns[1].logprobs.pop()
    with pytest.raises(ValueError, match=r"'q1', turn 2: \d+ log-probs for \d+ response tokens"):
        trajectory.rows()


def test_a_prompt_that_is_not_the_context_is_an_error() -> None:
    trajectory = play("history")
    trajectory.turns[1].prompt_ids[0] += 1
    with pytest.raises(ValueError, match="turn 2: the prompt is not the history context"):
        trajectory.rows()


def test_context_modes_read_and_write() -> None:
    assert str(ContextMode.parse("window:3")) == "window:3"
    assert ContextMode.parse("history").window is None
    for wrong in ("window", "window:", "window:0", "window:x", "full"):
        with pytest.raises(ValueError, match="context mode"):
            ContextMode.parse(wrong)
