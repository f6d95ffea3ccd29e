"""Counts add up exactly, over several updates of one step too."""

import pytest

from mempo.credit import CreditSettings
from mempo.memory_scores import STATUSES, MemorySettings, TurnScore
from mempo.probe import ANSWER_TAG
from mempo.reward import outcome_reward
from mempo.step_metrics import reference_name
from mempo.task import Reference
from verl_patches.advantage import AdvantageMass
from verl_patches.failures import Failure, RunFailed
from verl_patches.memory_credit import MemoryCredit, credit_memories
from verl_patches.metrics import RowCounts, StepReport, memory_metrics, trajectory_tokens
from verl_patches.records import SessionRecord


class CountingScorer:
    """Gives the n-th probe the log-prob −n / 10 on every answer token."""

    def __init__(self):
        self.calls = 0

    def answer_logprobs(self, probes):
        import torch

        self.calls += 1
        numbers = iter(range(1000))
        return [[torch.full((sum(p.answer_mask),), -next(numbers) / 10) for p in row] for row in probes]


@pytest.fixture
async def records(roll):
    made = []
    for session, said in (("a_0", (71, 72)), ("a_1", (70,)), ("b_0", (75,))):
        trajectory, reference = await roll(said=said), Reference([["rome"]])
        outcome = outcome_reward(trajectory, reference)
        seconds = {"generate": 1.0, "session": 2.0}
        made.append(SessionRecord.of(session, trajectory, reference, ANSWER_TAG, outcome, 2, seconds))
    return made


async def test_memories_are_scored_in_one_call_and_compared_within_their_question(records, tokens):
    scorer = CountingScorer()
    credit = credit_memories(records, scorer, tokens, MemorySettings(likelihood="all"), CreditSettings())
    assert scorer.calls == 1
    assert (credit.groups, credit.flat_groups) == (2, 1), "question b has one value only"
    assert sum(credit.advantages["a_0"].values()) == pytest.approx(-sum(credit.advantages["a_1"].values()))
    assert credit.advantages["a_0"] != {1: 0.0}
    assert credit.advantages["b_0"] == {1: 0.0}


async def test_a_question_that_the_gate_silenced_is_counted_as_such(records, tokens):
    for record in records:
        record.reward = 0.0
    credit = credit_memories(
        records, CountingScorer(), tokens, MemorySettings(likelihood="all"), CreditSettings(gate="on_success")
    )
    metrics = StepReport(credits=[credit], records=records).metrics()
    assert [metrics[f"memory/{name}"] for name in ("groups", "flat_groups", "gated_groups")] == [2, 1, 1]
    assert metrics["memory/turns"] == sum(metrics[f"memory/{status}"] for status in STATUSES) == 6


async def test_one_right_answer_of_two_passes_the_gate(roll, tokens):
    made = []
    for session, said in (("a_0", (71, 72)), ("a_1", (70,))):
        trajectory, reference = await roll(said=said), Reference([["rome"], ["oslo"]])
        outcome = outcome_reward(trajectory, reference)
        record = SessionRecord.of(
            session, trajectory, reference, ANSWER_TAG, outcome, 2, {"generate": 1.0, "session": 2.0}
        )
        made.append(record)
    # The answer of both is `rome` or `paris`; never both objectives.
    assert not any(record.scores["acc"] for record in made)
    made[0].reward, made[1].reward = 1.0, 0.0
    credit = credit_memories(
        made, CountingScorer(), tokens, MemorySettings(likelihood="all"), CreditSettings(gate="on_success")
    )
    assert credit.advantages["a_0"][1] != 0.0
    assert credit.advantages["a_1"] == {1: 0.0}


@pytest.mark.parametrize("reference", ["history", "previous_memory"])
async def test_the_reference_is_named_beside_its_probability(records, tokens, reference):
    settings = MemorySettings(likelihood="all", reference=reference)
    credit = credit_memories(records, CountingScorer(), tokens, settings, CreditSettings())
    metrics = memory_metrics(records, [credit])
    scored = [score for scores in credit.scores.values() for score in scores if score.status == "scored"]
    assert metrics["memory/p_reference"] == pytest.approx(sum(s.p_reference for s in scored) / len(scored))
    named = {name for name in metrics if name.startswith("memory/reference/")}
    assert named == {f"memory/reference/{reference}"}
    assert reference_name([metrics]) == reference.replace("history", "whole history").replace("_", " ")


def test_statuses_add_up_to_the_turns():
    scores = [TurnScore(index, status) for index, status in enumerate(STATUSES)] + [TurnScore(9, "first")]
    report = StepReport(credits=[MemoryCredit({"a_0": scores}), MemoryCredit({"b_0": scores})])
    metrics = report.metrics()
    assert metrics["memory/turns"] == 14 == sum(metrics[f"memory/{status}"] for status in STATUSES)
    assert metrics["memory/first"] == 4


async def test_a_step_reports_means_over_trajectories(records):
    report = StepReport(sessions=4, records=records, failures=[Failure("b_1", "timeout", "slow")])
    report.mass = AdvantageMass(4.0, 1.0)
    metrics = report.metrics()
    assert metrics["trajectory/reward_mean"] == pytest.approx(sum(r.reward for r in records) / 3)
    assert metrics["trajectory/turns_mean"] == 2
    assert metrics["trajectory/stop_answered"] == 3
    assert metrics["trajectory/search_ok"] == 3
    assert metrics["memory/advantage_mass_share"] == 0.25
    assert metrics["failures/timeout"] == metrics["failures/total"] == 1


def test_a_step_without_memories_or_trajectories_has_no_nan():
    assert all(value == value for value in StepReport().metrics().values())


async def test_the_length_of_a_windowed_trajectory_is_that_of_its_history(roll):
    record = SessionRecord("a_0", await roll("history"), Reference([["x"]]), ANSWER_TAG, 0.0, {}, 1, {})
    row = record.trajectory.rows()[0]
    assert trajectory_tokens(record) == len(row.prompt_ids) + len(row.response_ids)


@pytest.mark.parametrize("counts", [(3, 2, 2), (3, 3, 2), (2, 3, 3)])
def test_unequal_row_counts_fail_the_step(counts):
    names = ("produced", "transferred", "consumed")
    with pytest.raises(RunFailed, match="step 5"):
        RowCounts(**dict(zip(names, counts, strict=True))).check(5)
    RowCounts(produced=3, transferred=3, consumed=3).check(5)


def test_dropped_rows_are_neither_handed_over_nor_trained_on():
    RowCounts(produced=5, dropped=2, transferred=3, consumed=3).check(5)
    with pytest.raises(RunFailed, match="5 rows produced, 2 dropped, 5 transferred"):
        RowCounts(produced=5, dropped=2, transferred=5, consumed=5).check(5)
