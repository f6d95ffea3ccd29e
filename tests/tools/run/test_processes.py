"""No process outlives a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tools.run.processes import guarded, start, wait

# A child that leaves a daemon behind (its own session, its parent gone), as Ray does, and one that ignores SIGTERM.
DAEMON = """
import subprocess, sys
code = "import signal, time, os; signal.signal(signal.SIGTERM, signal.SIG_IGN); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", "import sys;" + code, sys.argv[1]], start_new_session=True)
"""


def wait_for(path: Path, seconds: float = 20) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.05)
    raise AssertionError(f"{path.name} did not come")


def is_gone(pid: int, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_orphaned_daemons_are_ended_too(tmp_path: Path) -> None:
    note = tmp_path / "daemon.pid"
    with guarded(grace_s=0.5):
        child = start([sys.executable, "-c", DAEMON, str(note)], log=tmp_path / "log")
        assert wait(child, 0.1, lambda: None) == 0
        pid = wait_for(note)
        assert psutil.pid_exists(pid)
    assert is_gone(pid)


def test_sigterm_and_ctrl_c_end_everything_and_exit_with_130(tmp_path: Path, root: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom tools.run.processes import guarded, start\n"
        "try:\n    with guarded(grace_s=1):\n"
        "        start([sys.executable, '-c', \"import os,sys,time; open(sys.argv[1],'w').write(str(os.getpid())); time.sleep(600)\", sys.argv[1]], log=Path(sys.argv[1] + '.log'))\n"
        "        time.sleep(600)\nexcept KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        note = tmp_path / f"{number}.pid"
        run = subprocess.Popen([sys.executable, "-c", code, str(note)], cwd=root)
        pid = wait_for(note)
        run.send_signal(number)
        assert run.wait(20) == 130
        assert is_gone(pid)


def test_a_child_dies_with_a_run_that_is_killed_outright(tmp_path: Path, root: Path) -> None:
    note = tmp_path / "child.pid"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom tools.run.processes import start\n"
        "start([sys.executable, '-c', \"import os,sys,time; open(sys.argv[1],'w').write(str(os.getpid())); time.sleep(600)\", sys.argv[1]], log=Path(sys.argv[1] + '.log'))\n"
        "time.sleep(600)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", code, str(note)], cwd=root)
    pid = wait_for(note)
    os.kill(run.pid, signal.SIGKILL)
    run.wait(20)
    assert is_gone(pid)


def test_waiting_looks_again_and_again_and_gives_the_exit_code(tmp_path: Path) -> None:
    looks: list[int] = []
    child = start(
        [sys.executable, "-c", "import time; time.sleep(0.5); raise SystemExit(7)"], log=tmp_path / "log"
    )
    assert wait(child, 0.1, lambda: looks.append(1)) == 7
    assert len(looks) > 1
