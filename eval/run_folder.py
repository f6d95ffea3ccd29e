"""What `RUN` names on a command line: the folder of an evaluation, of a training run, or one file of its samples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os.path import commonpath
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from eval.errors import EvalError
from eval.probe_log import read_probes
from eval.record import Record, from_sample, from_training
from eval.sample import Sample
from eval.sample_log import SAMPLES, SETTINGS, SUMMARY, read_folder
from eval.summary import summarize
from mempo.step_metrics import current_names

METRICS, EVALUATIONS, TRAJECTORIES = "metrics.jsonl", "eval", "trajectories"


@dataclass(frozen=True)
class Evaluation:
    """One evaluated model in one context mode.

    Attributes:
        key: A, B, … on the page.
        name: its folder, below what all runs of the page have in common.
        finished: whether its summary was written; otherwise `summary` is of the samples so far.
    """

    key: str
    name: str
    settings: dict[str, Any]
    samples: dict[str, Sample]
    summary: dict[str, Any]
    finished: bool
    records: list[Record]


@dataclass(frozen=True)
class TrainingRun:
    """A training run: one dict of metrics per step, and the sample trajectories of all steps; its key is T1, T2, …"""

    key: str
    name: str
    steps: list[dict[str, Any]]
    records: list[Record]


def is_evaluation(folder: Path) -> bool:
    return (folder / SETTINGS).is_file() and (folder / SAMPLES).is_file()


def is_training_run(folder: Path) -> bool:
    return (folder / METRICS).is_file() or (folder / TRAJECTORIES).is_dir()


def read_runs(folders: Sequence[Path]) -> tuple[list[Evaluation], list[TrainingRun]]:
    """All that the folders hold; a training run brings the evaluations in its `eval/`.

    Raises:
        EvalError: for a folder that is neither, naming it.
    """
    paths: list[Path] = []
    runs: list[TrainingRun] = []
    root = _common([folder.resolve() for folder in folders])
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        inner = [folder] if is_evaluation(folder) else _evaluations(folder)
        paths += inner
        if is_training_run(folder):
            key = f"T{len(runs) + 1}"
            runs.append(TrainingRun(key, _name(folder, root), _read_steps(folder), _step_records(folder)))
        elif not inner:
            raise _unknown(folder)
    evaluations = [
        _read_evaluation(_letters(index), path, _name(path, root))
        for index, path in enumerate(dict.fromkeys(paths))
    ]
    return evaluations, runs


def read_records(run: Path) -> list[Record]:
    """The trajectories of an evaluation, of a training run (all steps), or of one of its step files.

    Raises:
        EvalError: if `run` is none of these or holds no trajectory.
    """
    if run.is_file():
        records = list(_read_step_file(run))
    elif is_evaluation(run):
        records = _sample_records(run, read_folder(run)[1])
    elif is_training_run(run):
        records = _step_records(run)
    elif inner := _evaluations(run):
        raise EvalError(f"{run} holds {len(inner)} evaluations: give one of them, e.g. {inner[0]}")
    else:
        raise _unknown(run)
    if not records:
        inner = _evaluations(run)
        hint = f"; it has evaluations, e.g. {inner[0]}" if inner else ""
        raise EvalError(f"{run} holds no trajectory yet{hint}")
    return records


def natural(text: str) -> list[Any]:
    """A sort key under which step_9 comes before step_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def _evaluations(folder: Path) -> list[Path]:
    found = [
        path.parent for path in (folder / EVALUATIONS).glob(f"**/{SETTINGS}") if is_evaluation(path.parent)
    ]

    def order(path: Path) -> tuple[bool, list[Any]]:
        inside = path.relative_to(folder / EVALUATIONS)
        return inside.parts[:1] != ("before",), natural(str(inside))

    return sorted(found, key=order)


def _read_evaluation(key: str, folder: Path, name: str) -> Evaluation:
    settings, samples = read_folder(folder)
    if not samples:
        raise EvalError(f"{folder} holds no sample yet: evaluate first")
    records = _sample_records(folder, samples)
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except OSError:
        summary = None  # interrupted
    except ValueError as error:
        raise EvalError(f"{folder / SUMMARY} is not JSON ({error}): remove it and evaluate again") from error
    finished = isinstance(summary, dict) and summary.get("n") == len(samples)
    if not finished:
        summary = summarize(list(samples.values()))
    return Evaluation(key, name, settings, samples, summary, finished, records)


def _sample_records(folder: Path, samples: dict[str, Sample]) -> list[Record]:
    probes = read_probes(folder)
    return [
        _read(
            lambda sample: from_sample(sample, probes.get(sample["id"], {}).get("probe", ())),
            sample,
            f"{folder / SAMPLES}, {name}",
        )
        for name, sample in samples.items()
    ]


def _letters(index: int) -> str:
    """A, B, … Z, A2, B2, …"""
    again, place = divmod(index, len(ascii_uppercase))
    return ascii_uppercase[place] + (str(again + 1) if again else "")


def _read_steps(folder: Path) -> list[dict[str, Any]]:
    """The metrics of all steps in order; a line that a kill cut short is left out."""
    steps: dict[int, dict[str, Any]] = {}
    path = folder / METRICS
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            step = current_names(json.loads(line))
            steps[int(step["step"])] = step
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return [steps[number] for number in sorted(steps)]


def _step_records(folder: Path) -> list[Record]:
    files = sorted((folder / TRAJECTORIES).glob("step_*.jsonl"), key=lambda path: natural(path.name))
    return [record for path in files for record in _read_step_file(path)]


def _read_step_file(path: Path) -> Iterator[Record]:
    with path.open(encoding="utf-8", errors="surrogatepass") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                fields = json.loads(line)
            except ValueError as error:
                raise EvalError(f"{where}: not JSON ({error}); give a file of {TRAJECTORIES}/") from error
            yield _read(from_training, fields, where)


def _read(read: Callable[[Any], Record], fields: Any, where: str) -> Record:
    try:
        return read(fields)
    except KeyError as error:
        raise EvalError(f"{where}: the field {error} is missing; is this a trajectory of `mempo`?") from error
    except (TypeError, ValueError) as error:
        raise EvalError(f"{where}: not a trajectory ({error})") from error


def _common(folders: Sequence[Path]) -> Path:
    """What stands before the names: the last folder that all runs share."""
    return Path(commonpath([folder.parent for folder in folders]))


def _name(folder: Path, root: Path) -> str:
    """`run/before/history` for `…/run/eval/before/history`."""
    parts = folder.relative_to(root).parts
    return "/".join(
        part for index, part in enumerate(parts) if part != EVALUATIONS or index == len(parts) - 1
    )


def _unknown(path: Path) -> EvalError:
    return EvalError(
        f"{path} is neither the folder of an evaluation ({SETTINGS}, {SAMPLES}) nor of a training run "
        f"({METRICS} or {TRAJECTORIES}/)"
    )
