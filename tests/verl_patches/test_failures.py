"""Failed sessions are counted by cause; too many stop the run with the causes."""

import pytest

from mempo.agents.base import RolloutError
from mempo.trajectory import ContractViolation
from verl_patches.failures import Failure, RunFailed, cause_of, check_failures, failure_metrics

SLOW = Failure("u_0", "timeout", "question 'q1': 30 s")
LOST = Failure("u_1", "ConnectionError", "question 'q1': no route")


def test_counts_by_cause():
    assert failure_metrics([SLOW, LOST, LOST]) == {
        "failures/total": 3,
        "failures/timeout": 1,
        "failures/ConnectionError": 2,
    }
    assert failure_metrics([]) == {"failures/total": 0}


def test_a_cause_is_the_errors_own_or_its_class():
    assert cause_of(RolloutError("question_too_long", "text")) == "question_too_long"
    assert cause_of(KeyError("x")) == "KeyError"
    assert cause_of(RolloutError("a b/c", "text")) == "a_b_c"


def test_up_to_the_allowed_share_a_step_goes_on():
    check_failures([SLOW], sessions=5, max_failed_share=0.2, step=1)
    check_failures([], sessions=5, max_failed_share=0.0, step=1)


@pytest.mark.parametrize("sessions", [4, 1])
def test_beyond_it_the_run_stops_with_every_cause(sessions):
    with pytest.raises(RunFailed) as caught:
        check_failures([SLOW, LOST][:sessions], sessions=sessions, max_failed_share=0.2, step=7)
    text = str(caught.value)
    assert "step 7" in text
    assert "1 x timeout (question 'q1': 30 s)" in text
    assert sessions == 1 or "1 x ConnectionError (question 'q1': no route)" in text


def test_no_trajectory_at_all_stops_the_run_whatever_is_allowed():
    with pytest.raises(RunFailed, match="1 of 1 sessions"):
        check_failures([LOST], sessions=1, max_failed_share=1.0, step=1)


def test_a_broken_contract_fails_the_step_however_few_there_are():
    cause = cause_of(ContractViolation("turn 2: the prompt does not show the memory of the turn before it"))
    broken = Failure("u_2", cause, "question 'q1': turn 2: the prompt does not show the memory")
    with pytest.raises(RunFailed, match=r"step 3: 1 trajectories break the rules.*turn 2: the prompt"):
        check_failures([broken], sessions=1000, max_failed_share=0.9, step=3)
