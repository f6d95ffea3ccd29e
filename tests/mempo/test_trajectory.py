"""Rows and contexts follow from the turns; a broken turn is an error that names it."""

import asyncio
import json
import math

import pytest

from mempo.trajectory import ContextMode, ContractViolation, Trajectory
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


@pytest.mark.parametrize("context", ["history", "window:1"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 0.01, 1.0])
@pytest.mark.parametrize("place", [0, 3, -1])
def test_what_is_no_logprob_is_an_error_that_names_its_token(context: str, wrong: float, place: int) -> None:
    trajectory = play(context)
    turn = trajectory.turns[1]
    turn.logprobs[place] = wrong
    number = range(1, len(turn.logprobs) + 1)[place]
    with pytest.raises(
        ContractViolation, match=rf"'q1', turn 2: the log-prob of response token {number} is {wrong};"
    ):
        trajectory.rows()


def test_a_logprob_may_exceed_0_by_rounding_and_be_far_below() -> None:
    trajectory = play("history")
    trajectory.turns[1].logprobs[:4] = [1e-6, 1e-4, 0.0, -9999.0]
    assert trajectory.rows()[0].logprobs.count(1e-4) == 1, "as the engine reported it"


@pytest.mark.parametrize("context", ["history", "window:1"])
@pytest.mark.parametrize("span", [(-2, 3), (3, 2), (0, 10_000), (10_000, 10_000)])
def test_a_memory_outside_of_what_was_written_is_an_error(context: str, span: tuple[int, int]) -> None:
    trajectory = play(context)
    trajectory.turns[2].memory_span = span
    with pytest.raises(ContractViolation, match=r"'q1', turn 3: the memory is said to be tokens \("):
        trajectory.rows()


def test_a_forced_prefix_belongs_to_what_was_written() -> None:
    trajectory = play("window:1")
    turn = trajectory.turns[2]
    turn.prefix_ids, turn.memory_span = [1, 2], (0, len(turn.response_ids) + 2)
    assert trajectory.rows()[2].memory_spans == [(2, 0, len(turn.response_ids) + 2)]


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
