"""The process pool: rollouts go on while it computes, and whatever happens in it costs one call."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mempo.agents.base import RolloutError
from mempo.pool import in_pool, pool_in_use
from mempo.process_pool import ProcessPool
from mempo.reward import judge, outcome_reward
from mempo.task import Reference
from mempo.trajectory import Trajectory
from tests.mempo import rewards
from tests.mempo.support import ANSWER_TURN, SEARCH_TURN, TASK, ScriptedModel, make_agent, small_tokens

TOLD = "tests.mempo.rewards:told"


@pytest.fixture
def two() -> Iterator[ProcessPool]:
    with closing(ProcessPool(2)) as pool, pool_in_use(pool):
        yield pool


@pytest.fixture
def one() -> Iterator[ProcessPool]:
    with closing(ProcessPool(1)) as pool, pool_in_use(pool):
        yield pool


def rolled(*turns: str) -> Trajectory:
    tokens = small_tokens()
    return asyncio.run(
        make_agent(tokens).run(TASK, ScriptedModel(tokens, turns or (SEARCH_TURN, ANSWER_TURN)))
    )


def gold(fate: str = "") -> Reference:
    return Reference([["Mira Voss"]], [fate] if fate else [])


RIGHT = rolled()
WRONG = rolled(SEARCH_TURN, ANSWER_TURN.replace("\nMira Voss\n", "\nOslo\n"))


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():  # the test's timeout is the deadline
        time.sleep(0.01)


def wait_until_gone(pid: int) -> None:
    wait_until(lambda: gone(pid))


async def test_the_event_loop_goes_on_while_a_reward_computes(one: ProcessPool, tmp_path: Path) -> None:
    """The reward ends only when the loop has come round often enough to let it: a held loop never would."""
    done = tmp_path / "done"
    verdict = asyncio.create_task(judge(RIGHT, gold(f"spin_until {done}"), verifier=TOLD))
    for _ in range(1000):
        await asyncio.sleep(0.0005)
    assert not verdict.done()
    done.touch()
    assert (await verdict).success


async def test_the_pool_gives_what_the_own_process_gives(two: ProcessPool) -> None:
    trajectories = [RIGHT, WRONG] * 3
    outcomes = await asyncio.gather(*(judge(each, gold(), verifier=TOLD) for each in trajectories))
    assert outcomes == [outcome_reward(each, gold(), verifier=TOLD) for each in trajectories]
    assert [outcome.reward for outcome in outcomes] == [1.0, 0.0] * 3


async def test_a_verifier_that_does_not_ask_for_the_pool_needs_none() -> None:
    assert await judge(RIGHT, gold()) == outcome_reward(RIGHT, gold())
    with pytest.raises(RuntimeError, match="no process pool"):
        await judge(RIGHT, gold(), verifier=TOLD)


@pytest.mark.parametrize(
    ("fate", "cause", "said"),
    [
        ("die", "pool_process_died", "without a reply"),
        ("refuse", "ValueError", r"ValueError: no such answer \(.*rewards\.py, line \d+\)"),
        ("leave", "SystemExit", "SystemExit: 2"),
        ("give_up", "sandbox_full", "no sandbox is free"),
    ],
)
async def test_whatever_happens_to_a_reward_costs_its_own_rollout(
    two: ProcessPool, fate: str, cause: str, said: str
) -> None:
    fates = ["", "", fate, "", "", "", fate, ""]
    outcomes = await asyncio.gather(
        *(judge(RIGHT, gold(each), verifier=TOLD) for each in fates), return_exceptions=True
    )
    for each, outcome in zip(fates, outcomes, strict=True):
        if each:
            assert isinstance(outcome, RolloutError)
            assert outcome.cause == cause
            with pytest.raises(RolloutError, match=said):
                raise outcome
        else:
            assert outcome == outcome_reward(RIGHT, gold())


async def test_a_result_that_cannot_travel_is_a_failure_too(one: ProcessPool) -> None:
    with pytest.raises(RolloutError, match="pickle"):
        await in_pool(rewards.unpicklable, deadline_s=60)


async def test_a_call_that_cannot_travel_is_refused(one: ProcessPool) -> None:
    with pytest.raises(ValueError, match="cannot go to another process: .*Take a function of a module"):
        await in_pool(lambda: 1, deadline_s=60)


async def test_a_process_starts_when_it_is_needed_and_stays_until_the_pool_is_closed() -> None:
    before = {child.pid for child in multiprocessing.active_children()}
    with closing(ProcessPool(3)) as pool, pool_in_use(pool):
        assert {child.pid for child in multiprocessing.active_children()} <= before
        seen = {await in_pool(os.getpid, deadline_s=60) for _ in range(4)}
        assert {child.pid for child in multiprocessing.active_children()} - before == seen
        assert len(seen) == 1
    wait_until_gone(*seen)


async def test_a_call_past_its_deadline_loses_its_process_and_the_next_gets_another(
    one: ProcessPool, tmp_path: Path
) -> None:
    first = await in_pool(os.getpid, deadline_s=60)
    with pytest.raises(RolloutError) as caught:
        await in_pool(rewards.spin_until, str(tmp_path / "never"), deadline_s=0.2)
    assert caught.value.cause == "pool_deadline"
    second = await in_pool(os.getpid, deadline_s=60)
    assert second != first
    wait_until_gone(first)


async def test_a_cancelled_call_gives_its_process_back(one: ProcessPool, tmp_path: Path) -> None:
    first = await in_pool(os.getpid, deadline_s=60)
    started = tmp_path / "started"
    call = asyncio.create_task(in_pool(rewards.touch_and_spin, str(started), deadline_s=60))
    await asyncio.to_thread(wait_until, started.exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await in_pool(os.getpid, deadline_s=60) != first
    wait_until_gone(first)


async def test_a_process_that_is_killed_while_idle_costs_nothing(one: ProcessPool) -> None:
    first = await in_pool(os.getpid, deadline_s=60)
    os.kill(first, signal.SIGKILL)
    wait_until_gone(first)
    assert await in_pool(os.getpid, deadline_s=60) != first


def test_the_processes_end_with_their_parent(root: Path) -> None:
    """Killed, so that it could close nothing; its process was in the middle of a call."""
    program = (
        "import asyncio, os, signal\n"
        "from mempo.pool import in_pool, pool_in_use\n"
        "from mempo.process_pool import ProcessPool\n"
        "from tests.mempo.rewards import spin_until\n"
        "async def main():\n"
        "    with pool_in_use(ProcessPool(1)):\n"
        "        print(await in_pool(os.getpid, deadline_s=60), flush=True)\n"
        "        asyncio.create_task(in_pool(spin_until, '/nowhere/at/all', deadline_s=60))\n"
        "        await asyncio.sleep(0.2)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    wait_until_gone(int(ended.stdout))


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="run.pool_processes must be at least 1"):
        ProcessPool(0)
