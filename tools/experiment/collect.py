"""What an experiment keeps of a finished run: a few kilobytes out of its folder, without paths of this machine."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tools.experiment.errors import ExperimentError
from tools.experiment.outcome import EVALUATED, REWARD_AREA, after
from tools.run.metrics import Step, mean, read_steps, values
from tools.run.stages import Stages
from tools.run.training import RunFolder

CURVES = {
    # name in the record: metric of a step
    "reward": "trajectory/reward_mean",
    "em": "trajectory/em",
    "p_memory": "memory/p_memory",
    "p_reference": "memory/p_reference",
    "memory_length": "memory/length",
}
POINTS = 64  # of a curve; more steps than that are averaged in blocks
LATE = 0.25  # share of the steps, the last ones, whose stored trajectories give P(answer) by turn
NUMBERS = (
    "n",
    "failed",
    *EVALUATED,
    "turns",
    "total_tokens",
    "response_tokens",
    "peak_tokens",
)


def collect(path: Path, modes: Sequence[str]) -> dict[str, Any]:
    """The record of the finished run in `path`.

    Returns:
        Plain JSON types. What differs between two identical runs (seconds) lies under `timing`, and nowhere else.

    Raises:
        ExperimentError: a file is missing or is not what a run writes.
    """
    folder = RunFolder(path)
    try:
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        environment = json.loads((path / "environment.json").read_text(encoding="utf-8"))
        steps = read_steps(folder.metrics)
        rewards = values(steps, "trajectory/reward_mean")
        done = Stages(folder.stages, lambda line: None).note("train")
        last = folder.evaluation / f"after_step_{done.result['step'] if done else len(steps)}"
        evaluated = {mode: _evaluation(last / mode) for mode in modes}
        outcomes = {after(mode, key): evaluated[mode][key] for mode in modes for key in EVALUATED}
        area = mean(rewards)
        return {
            "steps": len(steps),
            "commit": environment.get("commit"),
            "outcomes": outcomes | ({REWARD_AREA: _short(area)} if area is not None else {}),
            "before": {mode: _numbers(folder.evaluation / "before" / mode) for mode in modes},
            "after": evaluated,
            "curve": curve(steps),
            "by_turn": by_turn(folder.trajectories, len(steps)),
            "failures": {key: summary[key] for key in ("failures", "dropped") if summary.get(key)},
            "timing": {
                "wall_s": summary["wall_s"],
                "train_s": summary["stages_s"].get("train"),
                "step_s": _short(summary["timing"].get("step_s")),
            },
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExperimentError(f"{path}: its results cannot be read ({error!r})") from error


def curve(steps: Sequence[Step]) -> dict[str, list[Any]]:
    """Metrics over the steps; `step` has the last step of each block."""
    size = -(-len(steps) // POINTS) or 1
    blocks = [list(steps[start : start + size]) for start in range(0, len(steps), size)]
    result: dict[str, list[Any]] = {"step": [block[-1]["step"] for block in blocks]}
    for name, metric in CURVES.items():
        means = [mean(values(block, metric)) for block in blocks]
        if any(value is not None for value in means):
            result[name] = [_short(value) for value in means]
    return result


def by_turn(folder: Path, steps: int) -> dict[str, dict[str, Any]]:
    """P(answer | memory) and P(answer | reference) by turn, over the stored trajectories of the last steps."""
    groups: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for number in range(int(steps * (1 - LATE)) + 1, steps + 1):
        source = folder / f"step_{number}.jsonl"
        if not source.exists():
            continue
        for line in source.read_text(encoding="utf-8").splitlines():
            for score in json.loads(line).get("memory", []) if line.strip() else []:
                if score.get("status") == "scored":
                    groups[score["turn"] + 1].append((score["p_memory"], score["p_reference"]))
    return {
        str(turn): {
            "p_memory": _short(fmean(p_memory for p_memory, _ in pairs)),
            "p_reference": _short(fmean(p_reference for _, p_reference in pairs)),
            "n": len(pairs),
        }
        for turn, pairs in sorted(groups.items())
    }


def _evaluation(folder: Path) -> dict[str, Any]:
    """Its numbers; and for each question in order, which objectives were answered exactly.

    `right` holds one bit for each objective, as hexadecimal digits, `objectives` their number by question (one number
    where all have the same), `questions` a hash of the questions' ids.
    """
    from eval.errors import EvalError
    from eval.sample_log import read_folder

    try:
        _, samples = read_folder(folder)
    except EvalError as error:
        raise ValueError(str(error)) from error
    ordered = sorted(samples.values(), key=lambda sample: (sample["index"], sample["id"]))
    counts = [len(sample["em_each"]) for sample in ordered]
    ids = json.dumps([sample["id"] for sample in ordered])
    return _numbers(folder) | {
        "questions": hashlib.sha256(ids.encode()).hexdigest()[:16],
        "objectives": sizes_of(counts),
        "right": pack([bool(right) for sample in ordered for right in sample["em_each"]]),
    }


def _numbers(folder: Path) -> dict[str, Any]:
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return {key: _short(summary[key]) for key in NUMBERS if summary.get(key) is not None}


def pack(bits: Sequence[bool]) -> str:
    """Bits as hexadecimal digits, the last one filled up with zeros."""
    padded = [*bits, *[False] * (-len(bits) % 4)]
    return "".join(
        f"{sum(bit << (3 - place) for place, bit in enumerate(padded[start : start + 4])):x}"
        for start in range(0, len(padded), 4)
    )


def question_scores(evaluation: dict[str, Any]) -> list[float]:
    """EM of each question: the mean over its objectives."""
    objectives, count = evaluation["objectives"], int(evaluation["n"])
    counts = [objectives] * count if isinstance(objectives, int) else list(map(int, objectives))
    bits = [int(digit, 16) >> (3 - place) & 1 for digit in evaluation["right"] for place in range(4)]
    scores, start = [], 0
    for size in counts:
        scores.append(sum(bits[start : start + size]) / size)
        start += size
    return scores


def sizes_of(counts: Sequence[int]) -> int | str | list[int]:
    """One number where all are the same, else digits, else the list: the file stays small."""
    if len(set(counts)) == 1:
        return counts[0]
    return "".join(map(str, counts)) if max(counts) <= 9 else list(counts)


def _short(value: Any) -> Any:
    """Floats with five decimals: far below any standard error, and the file stays small."""
    return round(value, 5) if isinstance(value, float) else value
