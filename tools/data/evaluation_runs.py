"""Evaluations that differ in their seed alone: only over such runs is the share of right answers a pass rate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from tools.data.records import DataError
from tools.hashing import file_sha256

SAMPLES, SETTINGS = "samples.jsonl", "settings.json"
SEED, TEMPERATURE, DATA, ROWS = "sampling.seed", "sampling.temperature", "data.sha256", "data.rows_sha256"
REMARKS = "remarks."  # settings for a reader, which make no difference


@dataclass(frozen=True)
class EvaluationRuns:
    """Runs of one model and agent over one file.

    Attributes:
        folders: of `mempo eval run` or `mempo eval reading`.
        settings: of the first run, as `settings.json` has them; those of the others differ in the seed.
        seeds: one per run.
    """

    folders: list[Path]
    settings: dict[str, Any]
    seeds: list[Any]

    @classmethod
    def read(cls, folders: Sequence[Path], data: Path) -> EvaluationRuns:
        """Reads and checks the settings.

        Args:
            data: the file that was evaluated.

        Raises:
            DataError: a folder is no evaluation, the runs differ in more than the seed, or not in the seed, or they
                answered another file; names the folders and the remedy.
        """
        runs = [(folder, _read(folder)) for folder in folders]
        flat = [(folder, dict(_flat(settings))) for folder, settings in runs]
        for pair in combinations(flat, 2):
            _check_pair(*pair)
        folder, first = flat[0]
        if first[DATA] != file_sha256(data):
            raise DataError(
                f"{folder} evaluated another file than {data} (SHA-256 {first[DATA][:12]}…): give --data the file that the "
                "runs answered, unchanged, or evaluate this one"
            )
        return cls(list(folders), runs[0][1], [settings[SEED] for _, settings in flat])

    @property
    def samples(self) -> list[Path]:
        return [folder / SAMPLES for folder in self.folders]


def _read(folder: Path) -> dict[str, Any]:
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        known = dict(_flat(settings))
        missing = [name for name in (SEED, TEMPERATURE, DATA) if name not in known]
        if missing or not isinstance(settings.get("model"), dict):
            raise ValueError(f"{', '.join(missing) or 'model'} is missing")
    except (OSError, ValueError, AttributeError) as error:
        raise DataError(
            f"{folder}: no {SETTINGS} of an evaluation ({error}): give the --out folder of a `mempo eval run` or "
            "`mempo eval reading`"
        ) from error
    return dict(settings)


def _check_pair(one: tuple[Path, dict[str, Any]], other: tuple[Path, dict[str, Any]]) -> None:
    (folder, settings), (again, others) = one, other
    if folder.resolve() == again.resolve():
        raise DataError(f"--run {folder} is given twice: give every run once")
    odd = [
        name
        for name in sorted(settings.keys() | others.keys())
        if settings.get(name) != others.get(name) and name != SEED and not name.startswith(REMARKS)
    ]
    if odd:
        told = ", ".join(f"{name} ({settings.get(name)!r} and {others.get(name)!r})" for name in odd)
        drawn = "; --questions draws other ones with every seed, leave it out" if ROWS in odd else ""
        raise DataError(
            f"{folder} and {again} differ in {told}: give runs of one model and agent over one file that differ in --seed "
            f"alone{drawn}"
        )
    if settings[TEMPERATURE] == 0:
        raise DataError(
            f"{folder} and {again} ran at temperature 0, at which every run answers the same: evaluate with a --temperature "
            "above 0 and a --seed each"
        )
    if settings[SEED] == others[SEED]:
        raise DataError(
            f"{folder} and {again} have the same settings, --seed {settings[SEED]} too, so that one repeats the other: "
            "evaluate again with another --seed, into a folder of its own"
        )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting by its dotted name."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
