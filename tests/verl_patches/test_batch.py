"""Rows and records are matched exactly; whatever is missing has a name."""

from types import SimpleNamespace

import pytest

from mempo.probe import ANSWER_TAG
from mempo.reward import outcome_reward
from mempo.task import Reference
from verl_patches.batch import check_equal_turns, match_rows
from verl_patches.failures import Failure, RunFailed
from verl_patches.records import SessionRecord


@pytest.fixture
async def record(roll):
    async def made(session, question="q1", rows=2):
        trajectory, reference = await roll(question=question), Reference([["rome"]])
        outcome = outcome_reward(trajectory, reference)
        seconds = {"generate": 0.0, "session": 0.0}
        return SessionRecord.of(session, trajectory, reference, ANSWER_TAG, outcome, rows, seconds)

    return made


def batch(*keys):
    return SimpleNamespace(keys=list(keys), tags=[{} for _ in keys])


async def test_order_is_by_question_and_session_not_by_arrival(record):
    records = {
        name: await record(name, question) for name, question in (("b_1", "q1"), ("b_0", "q1"), ("a_0", "q2"))
    }
    records["a_1"] = await record("a_1", "q2", rows=1)
    arrived = batch("a_0_1", "b_1_0", "a_1_0", "b_0_1", "b_0_0", "a_0_0", "b_1_1")
    matched, failures = match_rows(["a", "b"], 2, records, arrived)
    assert [r.session for r in matched.records] == ["b_0", "b_1", "a_0", "a_1"]
    assert matched.row_keys[-2:] == [["a_0_0", "a_0_1"], ["a_1_0"]]
    assert (matched.sessions, failures) == (4, [])


@pytest.mark.parametrize("uids", ["ab", "ba"])
async def test_a_question_that_was_drawn_twice_stands_in_the_order_of_its_draws(record, uids):
    """verl's uids are random: which of the two comes first must not depend on them."""
    records = {f"{uid}_{index}": await record(f"{uid}_{index}") for uid in uids for index in (0, 1)}
    for name, each in records.items():
        each.draw = 7 + uids.index(name[0])
    arrived = batch(*(f"{name}_{row}" for name in records for row in (0, 1)))
    matched, _ = match_rows(list(uids), 2, records, arrived)
    assert [r.session for r in matched.records] == [f"{uid}_{index}" for uid in uids for index in (0, 1)]
    assert [r.group for r in matched.records] == [uids[0]] * 2 + [uids[1]] * 2, "two groups, not one"


async def test_failed_and_silent_sessions_are_failures(record):
    failed = Failure("a_1", "timeout", "slow")
    matched, failures = match_rows(
        ["a"], 3, {"a_0": await record("a_0"), "a_1": failed}, batch("a_0_0", "a_0_1")
    )
    assert [r.session for r in matched.records] == ["a_0"]
    assert failures[0] is failed
    assert (failures[1].session, failures[1].cause) == ("a_2", "no_record")


@pytest.mark.parametrize("keys", [["a_0_0"], ["a_0_0", "a_0_1", "a_0_2"], ["a_0_0", "a_0_2"], []])
async def test_a_lost_or_foreign_row_names_its_trajectory(record, keys):
    with pytest.raises(RunFailed, match=r"trajectory a_0 .*2 rows were produced"):
        match_rows(["a"], 1, {"a_0": await record("a_0")}, batch(*keys))


async def test_rows_without_a_record_are_refused(record):
    with pytest.raises(RunFailed, match="trajectory a_1"):
        match_rows(["a"], 1, {"a_0": await record("a_0")}, batch("a_0_0", "a_0_1", "a_1_0"))


async def test_equal_turns_can_be_required(record):
    records = [await record("a_0"), await record("a_1"), await record("b_0", "q2")]
    records[2].trajectory.turns.pop()
    check_equal_turns(records)  # of another question
    records[1].trajectory.turns.pop()
    with pytest.raises(RunFailed, match="trajectory a_0 has 2 turns, a_1 has 1, and memory.equal_turns"):
        check_equal_turns(records)
