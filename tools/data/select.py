"""A fixed training set by pass rate: questions that a model neither always nor never gets right, and a held-out set."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.data.data_folder import replaced
from tools.data.evaluation_runs import EvaluationRuns
from tools.data.known import Answers, read_answers
from tools.data.manifest import write_manifest
from tools.data.records import DataError
from tools.data.schema import QuestionRow, read_rows, write_rows

REASONS = ("failed", "few_answers", "below_low", "above_high")  # why a question does not fit, in this order


@dataclass(frozen=True)
class SelectSettings:
    """What to keep.

    Attributes:
        data: a parquet file of questions.
        runs: folders of evaluations over it, at a temperature above 0, which differ in their seed alone.
        pass_at: answers that a question must have over all runs; fewer leave it out. A failed sample is no answer.
        low, high: pass rates that are kept, both included.
        train: questions to keep for training; their order is drawn once and frozen.
        held_out: questions held out, drawn before any result is looked at.
        model_revision: of the model that answered, where an endpoint served it and the runs know its name alone.
    """

    data: Path
    runs: list[Path]
    out: Path
    pass_at: int = 8
    low: float = 0.1
    high: float = 0.9
    train: int = 1000
    held_out: int = 500
    seed: int = 0
    model_revision: str | None = None

    def __post_init__(self) -> None:
        if not self.data.is_file():
            raise DataError(f"--data {self.data}: no such file; give the parquet file that the runs answered")
        if self.data.resolve().parent == self.out.resolve():
            raise DataError(f"--out {self.out} is the folder of --data: choose another one")

    def reason_against(self, answers: Answers) -> str | None:
        """Which of `REASONS` a question is left out for; None if it fits."""
        given, failed = len(answers.verdicts), len(answers.failures)
        if given < self.pass_at:
            return "failed" if given + failed >= self.pass_at else "few_answers"
        if answers.rate < self.low:
            return "below_low"
        return "above_high" if answers.rate > self.high else None


def select(settings: SelectSettings) -> dict[str, Any]:
    """Writes train.parquet, validation.parquet, ids.json (ids in order, pass rates) and the manifest; returns the last.

    Its `counts`: questions = held out (rows.validation) + left_out by reason + fitting. `failed_samples`: by cause, over
    all runs.

    Raises:
        DataError: there are too few questions, or the runs do not belong together (`tools.data.evaluation_runs`).
    """
    runs = EvaluationRuns.read(settings.runs, settings.data)
    rows = read_rows(settings.data)
    order = list(rows)
    random.Random(f"{settings.seed} select").shuffle(order)
    held_out, rest = order[: settings.held_out], order[settings.held_out :]
    answers = read_answers(runs.samples)
    reasons = {row.task.id: settings.reason_against(answers.get(row.task.id, Answers())) for row in rest}
    fitting = [row for row in rest if reasons[row.task.id] is None]
    against = Counter(reasons.values())
    left_out = {reason: against[reason] for reason in REASONS}
    failures = Counter(cause for each in answers.values() for cause in each.failures)
    if len(held_out) < settings.held_out or len(fitting) < settings.train:
        raise DataError(
            f"{settings.data}: {len(rows)} questions give {len(held_out)} of {settings.held_out} to hold out and "
            f"{len(fitting)} of {settings.train} with {settings.pass_at} answers and a pass rate from {settings.low:g} to "
            f"{settings.high:g} (left out: {listed(left_out)}; failed samples: {listed(failures)}): give more runs or "
            "questions, ask for fewer, or ask the failed ones again (--retry-failed of the evaluation)"
        )
    parts = {"train": fitting[: settings.train], "validation": held_out}
    facts = {
        "dataset": "selection",
        "seed": settings.seed,
        "settings": {
            name: getattr(settings, name) for name in ("pass_at", "low", "high", "train", "held_out")
        },
        "evaluations": _evaluations(runs, settings.model_revision),
        "counts": {
            "questions": len(rows),
            "left_out": left_out,
            "fitting": len(fitting),
            "failed_samples": dict(sorted(failures.items())),
            "rows": {split: len(part) for split, part in parts.items()},
        },
    }
    inputs = [settings.data, *runs.samples]
    with replaced(settings.out, inputs) as folder:
        outputs = _write(folder, parts, answers)
        return write_manifest(folder, inputs, outputs, facts)


def listed(counts: Mapping[str, int]) -> str:
    """`3 failed, 1 below_low`, or `none`."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _write(
    out: Path, parts: Mapping[str, Sequence[QuestionRow]], answers: Mapping[str, Answers]
) -> list[Path]:
    outputs = [out / "ids.json", *(out / f"{split}.parquet" for split in parts)]
    ids = {split: [row.task.id for row in part] for split, part in parts.items()}
    kept = {name: answers[name].rate for name in ids["train"]}
    outputs[0].write_text(
        json.dumps({**ids, "pass_rate": kept}, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    for path, (split, part) in zip(outputs[1:], parts.items(), strict=True):
        write_rows(path, (replace(row, split=split, index=index) for index, row in enumerate(part)))
    return outputs


def _evaluations(runs: EvaluationRuns, revision: str | None) -> dict[str, Any]:
    """The settings of the runs, with all their seeds and the model's revision."""
    given = {name: value for name, value in runs.settings.items() if name != "remarks"}
    if revision is not None:
        given["model"] = {**given["model"], "revision": revision}
    sampling = {name: value for name, value in given["sampling"].items() if name != "seed"}
    return {**given, "sampling": {**sampling, "seeds": runs.seeds}}
