"""The default run, for two steps, where users really start it: on machines and in folders that are not as one would wish."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tools.run.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.timeout(2400)]
SHORT = ["trainer.total_training_steps=2", "run.eval_questions=8"]
DEAD_PROXY = "http://127.0.0.1:9"


def _check(folder: Path, ended: subprocess.CompletedProcess[str]) -> None:
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]
    summary = json.loads((folder / "summary.json").read_text())
    rows = summary["rows"]
    assert summary["steps"] == 2
    assert rows["produced"] == rows["transferred"] == rows["consumed"] > 0
    assert summary["failures"].get("total", 0) == 0
    assert set(summary["eval"]["after"]) == {"history", "window1"}


@pytest.fixture
def other_ray() -> Iterator[psutil.Process]:
    """Somebody else's cluster, where Ray looks first: it wrote its address to /tmp/ray."""
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith("RAY_") and name != "TMPDIR"
    }
    ray = Path(sys.executable).with_name("ray")
    command = [
        str(ray),
        "start",
        "--head",
        "--port=0",
        "--num-cpus=1",
        "--include-dashboard=false",
        "--block",
    ]
    child = subprocess.Popen(
        command,
        env=plain,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said = ""
    assert child.stdout is not None
    while "Ray runtime started" not in said:
        line = child.stdout.readline()
        assert line, f"the other Ray did not start: {said}"
        said += line
    process = psutil.Process(child.pid)
    try:
        yield process
    finally:
        members = [process, *process.children(recursive=True)]
        child.send_signal(signal.SIGTERM)
        _, alive = psutil.wait_procs(members, timeout=30)
        for one in alive:
            one.kill()


def test_beside_another_ray_with_a_read_only_home_a_long_tmpdir_and_dead_proxies(
    tmp_path: Path, other_ray: psutil.Process
) -> None:
    members = {child.pid for child in other_ray.children(recursive=True)}
    long = tmp_path / ("t" * (119 - len(str(tmp_path))))
    (long / "ray").mkdir(parents=True)
    assert len(str(long)) == 120
    shutil.copy(
        "/tmp/ray/ray_current_cluster", long / "ray"
    )  # where a run of this TMPDIR would look for one to join
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), DEAD_PROXY)
    environment = {
        **{name: value for name, value in os.environ.items() if name.upper() != "NO_PROXY"},
        "HOME": "/proc/read-only",  # root could write to any folder of a plain file system
        "TMPDIR": str(long),
        **proxies,
        **{name.upper(): value for name, value in proxies.items()},
    }
    ended = subprocess.run(
        [str(ROOT / "run_train.sh"), "cpu", *SHORT, "run.name=hard", f"run.dir={tmp_path / 'runs'}"],
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    _check(tmp_path / "runs" / "hard", ended)
    assert "note: HOME (/proc/read-only) cannot be written to" in ended.stdout
    assert "note: TMPDIR has 120 bytes" in ended.stdout
    time.sleep(1)
    assert other_ray.is_running()
    assert members <= {child.pid for child in other_ray.children(recursive=True)}  # as it was, less nothing
    logs = Path("/tmp/ray/session_latest/logs")
    assert not list(logs.glob("worker-*")), "the run worked in somebody else's cluster"


def test_from_a_path_with_a_blank_and_a_letter_outside_of_ascii(tmp_path: Path) -> None:
    """A clone of the work tree, set up by the command itself; only what is built by content is shared with this one."""
    project = tmp_path / "mein Prüfstand" / "mempo"
    files = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True
    ).stdout.split(b"\0")
    for name in filter(None, files):
        target = project / os.fsdecode(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / os.fsdecode(name), target)
    (ROOT / "cache").mkdir(exist_ok=True)
    (project / "cache").symlink_to(ROOT / "cache")
    ended = subprocess.run(
        [str(project / "run_train.sh"), "cpu", *SHORT, "run.name=hard"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    _check(project / "runs" / "hard", ended)
