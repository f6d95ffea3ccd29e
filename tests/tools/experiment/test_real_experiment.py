"""Two arms, two seeds, two steps of the real recipe: killed twice, its results are those of an undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tools.experiment.support import results

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(3600)]

PROTOCOL = """
name: tiny
recipe: cpu
overrides:
  - trainer.total_training_steps=2
  - trainer.save_freq=1
  - trainer.max_actor_ckpt_to_keep=1
  - data.train_batch_size=4
  - actor_rollout_ref.actor.ppo_mini_batch_size=4
  - actor_rollout_ref.rollout.n=4
  - run.eval_questions=8
  - run.sft.steps=600
  - run.sft.drill_steps=100
  - run.cache='{cache}'
arms: {{grpo: [memory.weight=0], memory: []}}
control: grpo
seeds: [1, 2]
primary: eval.after.window1.em
margin: 0.02
"""


@contextmanager
def begun(protocol: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command at work; gone when the block ends."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "tools.cli",
        "experiment",
        "run",
        str(protocol),
        "--dir",
        str(folder),
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with folder.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def finish(protocol: Path, folder: Path) -> str:
    """Runs it to the end; returns what it said."""
    with begun(protocol, folder) as process:
        code = process.wait()
    said = folder.with_suffix(".log").read_text(encoding="utf-8")
    assert code == 0, said
    return said


def test_killed_twice_at_random_points_it_ends_with_the_same_results(tmp_path: Path) -> None:
    seed = random.randrange(2**31)
    print(f"points of the kills are drawn from seed {seed}")
    draw = random.Random(seed)
    protocol = tmp_path / "tiny.yaml"
    protocol.write_text(PROTOCOL.format(cache=tmp_path / "cache"), encoding="utf-8")
    start = time.monotonic()
    said = finish(protocol, tmp_path / "whole")
    took = time.monotonic() - start
    assert said.count("evaluation before training as in arm grpo") == 2, said  # once for each seed
    for number in (signal.SIGKILL, signal.SIGINT):
        after = took * draw.uniform(0.1, 0.45)
        print(f"{signal.Signals(number).name} after {after:.0f} s of {took:.0f}")
        with begun(protocol, tmp_path / "killed") as process:
            with pytest.raises(subprocess.TimeoutExpired):  # it must still be running
                process.wait(after)
            process.send_signal(number)
            process.wait(120)
    print(finish(protocol, tmp_path / "killed"))
    whole = results(tmp_path / "whole")
    assert [run["status"] for run in whole["runs"]] == ["done"] * 4
    assert results(tmp_path / "killed") == whole
