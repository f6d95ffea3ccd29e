"""Folders of evaluations and of training runs as the programs leave them, with texts of a test's choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eval.probe_log import PROBES
from eval.sample import Sample, answered_sample, failed_sample
from eval.sample_log import SampleLog
from eval.summary import summarize
from eval.tasks import Question
from mempo.reward import outcome_reward
from mempo.task import Reference, Task
from mempo.trajectory import Action, ContextMode, MemoryStatus, StopReason, Trajectory, Turn

HOSTILE = (
    "<script>alert(1)</script></script><img src=https://evil.example/x onerror=alert(2)></textarea><!-- "
    "]]> \u202egnp.exe\u202c \0 \ud800 \u2028 &lt; ' \" `${alert(3)}` "
)

# What `mempo eval probe` says about the two turns of a trajectory.
PROBE = [
    {"turn": 0, "status": "first", "p_memory": None, "p_history": None, "kept": 0},
    {"turn": 1, "status": "scored", "p_memory": 0.75, "p_history": 0.5, "kept": 2},
]


def turn(number: int, text: str, *, answer: str | None = None, memory_tokens: int = 3) -> Turn:
    """A turn that searches for `text`, or answers; every text of it ends with `text`."""
    action = Action("search", f"query {text}") if answer is None else Action("answer", answer)
    return Turn(
        prompt_ids=[],
        prefix_ids=[],
        response_ids=[7] * (memory_tokens + 2),
        logprobs=[-0.1] * (memory_tokens + 2),
        memory_span=(0, memory_tokens),
        memory_status=MemoryStatus.CLOSED,
        memory_text=f"memory {number} {text}",
        thought=f"thought {text}",
        action=action,
        observation="" if answer is not None else f"page {text}",
        observation_ids=[] if answer is not None else [8, 8],
        observation_status="none" if answer is not None else "ok",
    )


def question(number: int, text: str = "") -> Question:
    """Question `number`, of 1 + number % 2 hops; its answer is `Answer <number>`."""
    task = Task(f"q{number}", f"Question {number}? {text}")
    return Question(
        number, task, Reference([[f"Answer {number}"]]), data_source="fake", hops=1 + number % 2, type="bridge"
    )  # fmt: skip


def trajectory(asked: Question, *, right: bool, text: str = "", turns: int = 2) -> Trajectory:
    said = asked.reference.answers[0][0] if right else f"dunno {text}"
    steps = [turn(n, text, memory_tokens=2 + n) for n in range(1, turns)]
    return Trajectory(
        task=asked.task,
        turns=[*steps, turn(turns, text, answer=said, memory_tokens=2 + turns)],
        stop=StopReason.ANSWERED,
        first_prompt_ids=[1, 2],
        generation_prompt_ids=[3],
        context=ContextMode(1),
    )


def write_evaluation(
    folder: Path,
    right: set[int],
    *,
    count: int = 6,
    failed: tuple[int, ...] = (),
    text: str = "",
    settings: dict[str, Any] | None = None,
    probe: list[dict[str, Any]] | None = None,
    finished: bool = True,
) -> dict[str, Any]:
    """A folder with `count` samples; returns the summary."""
    samples: list[Sample] = []
    for number in range(count):
        asked = question(number, text)
        if number in failed:
            samples.append(failed_sample(asked, "http_500", f"as told {text}", seconds=0.1))
            continue
        rolled = trajectory(asked, right=number in right, text=text)
        outcome = outcome_reward(rolled, asked.reference, objectives="mean")
        samples.append(answered_sample(asked, rolled, outcome, seconds=0.5))
    summary = summarize(samples)
    with SampleLog(
        folder, {"model": {"name": "m"}, "agent": {"context": "window:1"}, **(settings or {})}
    ) as log:
        for sample in samples:
            log.append(sample)
        if finished:
            log.write_summary(summary)
    if probe is not None:
        lines = [json.dumps({"id": sample["id"], "probe": probe}) + "\n" for sample in samples]
        (folder / PROBES).write_text("".join(lines))
    return summary


def training_line(
    step: int, number: int, *, text: str = "", tokens: list[Any] | None = None
) -> dict[str, Any]:
    """A line of trajectories/step_N.jsonl with a right answer, whose second memory is worth `number` / 10."""
    asked = question(number, text)
    line = {
        "step": step,
        "session": f"u{number}_0",
        "question": asked.task.question,
        "answers": asked.reference.answers,
        "answer": asked.reference.answers[0][0],
        "stop": "answered",
        "reward": 1.0,
        "scores": {"acc": 1.0, "em": 1.0, "f1": 1.0, "sub_em": 1.0, "format_ok": 1.0},
        "memory": [
            {"turn": 0, "status": "first", "p_memory": 0.0, "p_reference": 0.0, "kept": 0, "reward": 0.0},
            {
                "turn": 1,
                "status": "scored",
                "p_memory": number / 10 + 0.1,
                "p_reference": 0.1,
                "kept": 2,
                "reward": number / 10,
            },
        ],
        "text": "",
        "trajectory": trajectory(asked, right=True, text=text).to_record(),
    }
    return {**line, "tokens": tokens} if tokens is not None else line


def write_training_run(folder: Path, steps: int = 3, lines: list[dict[str, Any]] | None = None) -> Path:
    """metrics.jsonl and trajectories/; the lines of every step, or two per step."""
    (folder / "trajectories").mkdir(parents=True)
    with (folder / "metrics.jsonl").open("w") as metrics:
        for step in range(1, steps + 1):
            numbers = {
                "step": step,
                "trajectory/reward_mean": step / 10,
                "trajectory/reward_std": 0.2,
                "trajectory/count": 4,
                "trajectory/em": step / 20,
                "memory/p_memory": step / 5,
                "memory/p_reference": 0.1,
                "memory/reference/history": 1,
                "memory/length": 9.5,
            }
            metrics.write(json.dumps(numbers) + "\n")
            said = lines if lines is not None else [training_line(step, number) for number in (1, 2)]
            text = "".join(json.dumps({**line, "step": step}) + "\n" for line in said)
            (folder / "trajectories" / f"step_{step}.jsonl").write_text(text)
    return folder
