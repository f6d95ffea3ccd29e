"""A call that hangs ends the run with a sentence instead of hanging it."""

import threading

import pytest

from verl_patches.deadline import with_deadline
from verl_patches.failures import RunFailed


def test_a_quick_call_is_as_before():
    assert with_deadline(lambda x: x + 1, 5, "sync", "advice")(2) == 3
    assert with_deadline(lambda: None, 5, "sync", "advice")() is None


def test_a_hanging_call_ends_with_advice():
    held = threading.Event()
    with pytest.raises(RunFailed, match=r"weight sync did not finish in 0.05 s. Look there"):
        with_deadline(held.wait, 0.05, "weight sync", "Look there")()
    held.set()


def test_a_failing_call_tells_its_cause():
    def fail():
        raise OSError("socket closed")

    with pytest.raises(RunFailed, match="weight sync failed: OSError: socket closed"):
        with_deadline(fail, 5, "weight sync", "advice")()
