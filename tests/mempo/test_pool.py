"""The process pool: rollouts go on while it computes, and whatever happens in it costs one call."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from mempo import call_process, process_pool
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
    """Not there, or dead and waiting for its parent to take note."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():  # the test's timeout is the deadline
        time.sleep(0.01)


def wait_until_gone(pid: int) -> None:
    wait_until(lambda: gone(pid))


def children() -> set[int]:
    """Those of this process that are alive."""
    return {child.pid for child in psutil.Process().children() if not gone(child.pid)}


def number_in(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text().isdigit())
    return int(path.read_text())


def run_program(root: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, with a pool of one process; it must end within a minute, and says what it prints."""
    program = (
        "import asyncio, os, signal\n"
        "from mempo.agents.base import RolloutError\n"
        "from mempo.pool import in_pool, pool_in_use\n"
        "from mempo.process_pool import ProcessPool\n"
        "from tests.mempo import rewards\n"
        "async def main():\n"
        + "".join(f"    {line}\n" for line in lines)
        + "with pool_in_use(ProcessPool(1)):\n    asyncio.run(main())\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )


async def cause_of(function: Callable[..., object], *args: object, deadline_s: float = 60) -> str:
    with pytest.raises(RolloutError) as caught:
        await in_pool(function, *args, deadline_s=deadline_s)
    return caught.value.cause


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


async def test_a_result_that_cannot_be_read_here_is_a_failure_too(one: ProcessPool) -> None:
    with pytest.raises(RolloutError, match="cannot be unpickled: ValueError: invalid literal") as caught:
        await in_pool(rewards.return_unreadable, deadline_s=60)
    assert caught.value.cause == "pool_reply_unreadable"


async def test_an_exception_without_a_text_is_named_by_its_class(one: ProcessPool) -> None:
    with pytest.raises(RolloutError, match=r"its text cannot be read: KeyError.*rewards\.py") as caught:
        await in_pool(rewards.raise_unspeakable, deadline_s=60)
    assert caught.value.cause == "Unspeakable"


async def test_a_call_that_cannot_travel_is_refused(one: ProcessPool) -> None:
    with pytest.raises(ValueError, match="cannot go to another process: .*Take a function of a module"):
        await in_pool(lambda: 1, deadline_s=60)


async def test_a_function_of_the_program_itself_is_refused(
    one: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewards.die, "__module__", "__main__")
    with pytest.raises(ValueError, match="belongs to the program itself. Move it to a module"):
        await in_pool(rewards.die, deadline_s=60)


async def test_a_process_starts_when_it_is_needed_and_stays_until_the_pool_is_closed() -> None:
    before = children()
    with closing(ProcessPool(3)) as pool, pool_in_use(pool):
        assert children() == before
        (seen,) = {await in_pool(os.getpid, deadline_s=60) for _ in range(4)}
        started = children() - before
        assert seen in started
        assert len(started) == 2, "the process and its guard"
    wait_until(lambda: children() == before)


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
    assert psutil.Process(first).status() == psutil.STATUS_ZOMBIE, (
        "its number stays its own until the pool lets go"
    )
    assert await in_pool(os.getpid, deadline_s=60) != first
    wait_until(lambda: not psutil.pid_exists(first))


@pytest.mark.parametrize(("then", "cause"), [("die", "pool_process_died"), ("hang", "pool_deadline")])
def test_a_reply_that_stops_halfway_costs_its_call_and_nothing_waits_for_the_rest(
    root: Path, then: str, cause: str
) -> None:
    deadline_s = 60 if then == "die" else 0.5
    ended = run_program(
        root,
        "try:",
        f"    await in_pool(rewards.reply_by_half, {then!r}, deadline_s={deadline_s})",
        "except RolloutError as error:",
        "    print(error.cause)",
        "print(len(await in_pool(bytes, 10_000_000, deadline_s=60)))",
    )
    assert ended.stdout.split() == [cause, "10000000"]
    assert ended.returncode == 0


async def test_what_a_reward_started_ends_with_its_deadline(one: ProcessPool, tmp_path: Path) -> None:
    started = tmp_path / "started"
    assert await cause_of(rewards.start_another, str(started), deadline_s=2) == "pool_deadline"
    wait_until_gone(number_in(started))


@pytest.mark.parametrize("function", [rewards.start_another_and_die, rewards.fork_and_die])
async def test_what_a_reward_started_ends_with_its_process(
    one: ProcessPool, tmp_path: Path, function: Callable[[str], None]
) -> None:
    started = tmp_path / "started"
    assert await cause_of(function, str(started)) == "pool_process_died"
    wait_until_gone(number_in(started))


async def test_imports_are_not_counted_to_the_deadline(
    one: ProcessPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(1)\ndef two(): return 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    import slow_to_import

    assert await in_pool(slow_to_import.two, deadline_s=0.5) == 2


async def test_an_import_that_hangs_has_a_deadline_too(
    one: ProcessPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await in_pool(os.getpid, deadline_s=60)
    module = tmp_path / "hangs_elsewhere.py"
    module.write_text(
        f"import os, time\nif os.getpid() != {os.getpid()}: time.sleep(1000)\ndef two(): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import hangs_elsewhere

    monkeypatch.setattr(process_pool, "START_DEADLINE_S", 3)
    os.kill(first, signal.SIGKILL)  # it does not know the path yet
    with pytest.raises(RolloutError, match="did not begin in 3 s") as caught:
        await in_pool(hangs_elsewhere.two, deadline_s=60)
    assert caught.value.cause == "pool_start"


@pytest.mark.parametrize(
    ("does", "deadline_s", "said"),
    [("exec sleep 1000", 0.5, "did not begin in 0.5 s"), ("exit 3", 60, "ended before the function")],
)
async def test_a_process_that_does_not_come_up_is_ended(
    one: ProcessPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, deadline_s: float, said: str
) -> None:
    before = children()
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\n{does}\n")
    interpreter.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(process_pool, "START_DEADLINE_S", deadline_s)
        patch.setattr(sys, "executable", str(interpreter))
        with pytest.raises(RolloutError, match=said) as caught:
            await in_pool(os.getpid, deadline_s=60)
        assert caught.value.cause == "pool_start"
    wait_until(lambda: children() == before)
    assert await in_pool(os.getpid, deadline_s=60) > 0


async def test_a_machine_without_room_for_a_process_costs_the_call(
    one: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> None:
        raise BlockingIOError("no room")

    monkeypatch.setattr(call_process, "Popen", full)
    with pytest.raises(RolloutError, match="no process could be started: no room") as caught:
        await in_pool(os.getpid, deadline_s=60)
    assert caught.value.cause == "pool_start"


async def test_a_default_timeout_of_sockets_is_none_of_its_business(one: ProcessPool) -> None:
    try:
        socket.setdefaulttimeout(0.01)
        first = await in_pool(os.getpid, deadline_s=60)
        await asyncio.sleep(0.2)
        assert await in_pool(os.getpid, deadline_s=60) == first
    finally:
        socket.setdefaulttimeout(None)


async def test_a_process_does_not_hear_the_terminal_of_its_parent(one: ProcessPool) -> None:
    assert await in_pool(os.getsid, 0, deadline_s=60) != os.getsid(0)


async def test_a_pool_that_is_closed_lets_nobody_wait(tmp_path: Path) -> None:
    before = children()
    pool = ProcessPool(1)
    started = tmp_path / "started"
    with pool_in_use(pool):
        at_work = asyncio.create_task(in_pool(rewards.touch_and_spin, str(started), deadline_s=60))
        await asyncio.to_thread(wait_until, started.exists)
        waiting = [asyncio.create_task(in_pool(os.getpid, deadline_s=60)) for _ in range(2)]
        await asyncio.sleep(0)
        pool.close()
        for call in [at_work, *waiting, in_pool(os.getpid, deadline_s=60)]:
            with pytest.raises(RuntimeError, match="pool is closed"):
                await call
    wait_until(lambda: children() == before)


def test_a_pool_belongs_to_one_event_loop() -> None:
    async def asked() -> int:
        return await in_pool(os.getpid, deadline_s=60)

    with closing(ProcessPool(1)) as pool, pool_in_use(pool):
        asyncio.run(asked())
        with pytest.raises(RuntimeError, match="belongs to another event loop: make one for each"):
            asyncio.run(asked())


def test_another_kind_of_event_loop_will_do(tmp_path: Path) -> None:
    """Ray's actors run on it."""
    uvloop = pytest.importorskip("uvloop")

    async def deadline_and_cancellation() -> None:
        first = await in_pool(os.getpid, deadline_s=60)
        assert await cause_of(rewards.spin_until, str(tmp_path / "never"), deadline_s=0.2) == "pool_deadline"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_pool(rewards.spin_until, str(tmp_path / "never"), deadline_s=60), 0.2)
        assert len(await in_pool(bytes, 10_000_000, deadline_s=60)) == 10_000_000
        assert await cause_of(rewards.die) == "pool_process_died"
        wait_until_gone(first)

    with closing(ProcessPool(1)) as pool, pool_in_use(pool):
        uvloop.run(deadline_and_cancellation())


@pytest.mark.parametrize("function", ["touch_and_spin", "hold_the_interpreter", "start_another"])
def test_the_processes_end_with_their_parent(root: Path, tmp_path: Path, function: str) -> None:
    """Killed, so that it could close nothing; its process was in the middle of a call."""
    busy = tmp_path / "busy"
    ended = run_program(
        root,
        "print(await in_pool(os.getpid, deadline_s=60), flush=True)",
        f"call = asyncio.create_task(in_pool(rewards.{function}, {str(busy)!r}, deadline_s=60))",
        f"while not os.path.exists({str(busy)!r}):",
        "    await asyncio.sleep(0.01)",
        "await asyncio.sleep(0.2)",
        "os.kill(os.getpid(), signal.SIGKILL)",
    )
    assert ended.returncode == -signal.SIGKILL
    wait_until_gone(int(ended.stdout))
    if function == "start_another":
        wait_until_gone(number_in(busy))


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="run.pool_processes must be at least 1"):
        ProcessPool(0)
