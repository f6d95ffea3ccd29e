"""Stands in for `python -m tools.run`: leaves the files of a run, or fails, as a file beside the runs tells it to.

Standard library only: as a process it takes a moment. `python fake_run.py RUN_FOLDER SEED ARM`
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

MODES = ("history", "window1")
QUESTIONS, STEPS = 7, 2
GAIN = {"grpo": 0.0, "ours": 0.4, "gain": 0.2}
BEHAVIOUR = "behaviour.json"  # beside runs/: run name → what its next starts do: crash, kill, hang
STARTED = "started.txt"  # one line for each start, and for each evaluation before training


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")


def note(folder: Path, line: str) -> None:
    with (folder.parents[1] / STARTED).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def evaluation(folder: Path, seed: int, draw: random.Random, share: float) -> None:
    counts = [1 + (index % 3 == 2) for index in range(QUESTIONS)]
    samples = [
        {
            "id": f"s{seed}q{index}",
            "index": index,
            "em_each": [draw.random() < share for _ in range(count)],
        }
        for index, count in enumerate(counts)
    ]
    em = sum(sum(sample["em_each"]) / len(sample["em_each"]) for sample in samples) / len(samples)
    write(folder / "settings.json", {"seed": seed})
    order = sorted(samples, key=lambda sample: draw.random())  # they finish in any order
    (folder / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in order))
    numbers = {"n": QUESTIONS, "em": em, "f1": em + 0.1, "format_share": 1.0, "turns": 2.5, "failed": 0}
    write(folder / "summary.json", numbers | {"total_tokens": 300.0, "response_tokens": 80.0})


def run(folder: Path, seed: int, arm: str) -> int:
    """The whole run, in stages as the pipeline has them; returns the exit code."""
    note(folder, f"start {folder.name}")
    instructions = folder.parents[1] / BEHAVIOUR
    told = json.loads(instructions.read_text()) if instructions.exists() else {}
    behaviour = told.get(folder.name) or [None]
    if instructions.exists():
        write(instructions, told | {folder.name: behaviour[1:]})
    write(folder / "environment.json", {"commit": "c0ffee"})
    if not (folder / "stages" / "evaluate_before.json").exists():
        if not (folder / "eval" / "before").exists():
            note(folder, f"before {seed}")
            for mode in MODES:
                evaluation(folder / "eval" / "before" / mode, seed, random.Random(seed), 0.3)
        write(folder / "stages" / "evaluate_before.json", {"inputs": {}, "result": {}, "seconds": 1.0})
    if behaviour[0] == "crash":
        print(f"step 1\nerror: training ended: out of memory in {folder}", flush=True)
        return 1
    if behaviour[0] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour[0] == "hang":
        time.sleep(60)
    draw = random.Random(f"{seed} {arm}")
    rewards = [0.5 + 0.1 * GAIN[arm] * step + 0.01 * draw.random() for step in range(STEPS)]
    (folder / "metrics.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "step": step,
                    "trajectory/reward_mean": reward,
                    "memory/p_memory": 0.2 + step / 10,
                    "memory/length": 12,
                }
            )
            + "\n"
            for step, reward in enumerate(rewards, start=1)
        )
    )
    scores = [{"turn": 0, "status": "first"}]
    scores += [
        {"turn": turn, "status": "scored", "p_memory": 0.3 * turn, "p_reference": 0.1} for turn in (1, 2)
    ]
    write(folder / "trajectories" / f"step_{STEPS}.jsonl", {"memory": scores})
    write(folder / "stages" / "train.json", {"inputs": {}, "result": {"step": STEPS}, "seconds": 2.0})
    for mode in MODES:
        evaluation(folder / "eval" / f"after_step_{STEPS}" / mode, seed, draw, 0.4 + GAIN[arm])
    seconds = time.time() % 100  # never the same twice
    write(
        folder / "summary.json",
        {
            "wall_s": seconds,
            "stages_s": {"train": seconds},
            "timing": {"step_s": seconds},
            "failures": {"total": 1},
            "dropped": {},
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
