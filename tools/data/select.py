"""A fixed training set by pass rate: questions that a model neither always nor never gets right, and a held-out set."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tools.data.known import read_verdicts
from tools.data.manifest import remove_outputs, write_manifest
from tools.data.records import DataError
from tools.data.schema import QuestionRow, read_rows, write_rows

SAMPLES, SETTINGS = "samples.jsonl", "settings.json"


@dataclass(frozen=True)
class SelectSettings:
    """What to keep.

    Attributes:
        data: a parquet file of questions.
        runs: folders of `mempo eval run` over them, at a temperature above 0 and with different seeds.
        pass_at: answers that a question must have over all runs; fewer leave it out.
        low, high: pass rates that are kept, both included.
        train: questions to keep for training; their order is drawn once and frozen.
        held_out: questions held out, drawn before any result is looked at.
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


def select(settings: SelectSettings) -> dict[str, Any]:
    """Writes train.parquet, validation.parquet, ids.json (ids in order, pass rates) and the manifest; returns the last.

    Raises:
        DataError: there are too few questions, or a run is none.
    """
    rows = read_rows(settings.data)
    order = list(rows)
    random.Random(f"{settings.seed} select").shuffle(order)
    held_out, rest = order[: settings.held_out], order[settings.held_out :]
    verdicts = read_verdicts(folder / SAMPLES for folder in settings.runs)
    rates = {
        name: sum(given) / len(given) for name, given in verdicts.items() if len(given) >= settings.pass_at
    }
    fitting = [row for row in rest if settings.low <= rates.get(row.task.id, -1.0) <= settings.high]
    if len(held_out) < settings.held_out or len(fitting) < settings.train:
        raise DataError(
            f"{settings.data}: {len(rows)} questions give {len(held_out)} of {settings.held_out} to hold out and "
            f"{len(fitting)} of {settings.train} with {settings.pass_at} answers and a pass rate from {settings.low:g} to "
            f"{settings.high:g}: give more runs or questions, or ask for fewer"
        )
    parts = {"train": fitting[: settings.train], "validation": held_out}
    outputs = _write(settings.out, parts, rates)
    facts = {
        "dataset": "selection",
        "seed": settings.seed,
        "settings": {
            key: value
            for key, value in asdict(settings).items()
            if key not in ("data", "runs", "out", "seed")
        },
        "models": [_model(folder) for folder in settings.runs],
        "counts": {
            "questions": len(rows),
            "rated": len(rates),
            "never_right": sum(rate == 0 for rate in rates.values()),
            "always_right": sum(rate == 1 for rate in rates.values()),
            "fitting": len(fitting),
            "rows": {split: len(part) for split, part in parts.items()},
        },
    }
    inputs = [settings.data, *(folder / SAMPLES for folder in settings.runs)]
    return write_manifest(settings.out, inputs, outputs, facts)


def _write(out: Path, parts: Mapping[str, Sequence[QuestionRow]], rates: Mapping[str, float]) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    remove_outputs(out)
    outputs = [out / "ids.json", *(out / f"{split}.parquet" for split in parts)]
    ids = {split: [row.task.id for row in part] for split, part in parts.items()}
    kept = {name: rates[name] for name in ids["train"]}
    outputs[0].write_text(
        json.dumps({**ids, "pass_rate": kept}, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    for path, (split, part) in zip(outputs[1:], parts.items(), strict=True):
        write_rows(path, (replace(row, split=split, index=index) for index, row in enumerate(part)))
    return outputs


def _model(folder: Path) -> dict[str, Any]:
    """The model of an evaluation, as its settings identify it, and how it was sampled."""
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        return {"model": settings["model"], "sampling": settings["sampling"]}
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{folder}: no {SETTINGS} of a `mempo eval run` ({error})") from error
