"""Evaluations for a card: read from their folders, summed up anew from the samples, and told apart by the model's hash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.release.errors import ReleaseError

THIS, START, OTHER = "this model", "start of training", "another model"


@dataclass(frozen=True)
class Result:
    """One evaluation.

    Attributes:
        name: its place below the folder that was given, e.g. `after_step_32/window1`.
        subject: `THIS`, `START` or `OTHER`.
        settings: what could change a sample (`eval.run.run_settings`).
        summary: means with 95 % intervals (`eval.summary.summarize`).
        sources: data sets of the questions.
        samples: by id.
    """

    name: str
    subject: str
    settings: dict[str, Any]
    summary: dict[str, Any]
    sources: tuple[str, ...]
    samples: dict[str, dict[str, Any]]

    @property
    def context(self) -> str:
        """The context mode, e.g. `window:1`."""
        return str(self.settings["agent"].get("context"))

    def plain(self) -> dict[str, Any]:
        """What release.json keeps of it."""
        kept = ("n", "failed", "em", "em_ci", "f1", "f1_ci", "format_share", "turns", "peak_tokens")
        return {
            "name": self.name,
            "subject": self.subject,
            "model": self.settings["model"],
            "context": self.context,
            "data": self.settings["data"],
            "sources": list(self.sources),
            **{key: self.summary.get(key) for key in kept},
        }


def model_hash(folder: Path) -> str | None:
    """What evaluations call a model folder; None if it holds no model."""
    from eval.errors import EvalError
    from eval.model_files import model_settings

    try:
        return str(model_settings(folder)["sha256"])
    except EvalError:
        return None


def read_results(folders: Iterable[Path], hashes: Mapping[str, str]) -> list[Result]:
    """All finished evaluations in and below the folders, in the order of their names.

    Args:
        hashes: `THIS` or `START` by the hash of a model.

    Raises:
        ReleaseError: a folder holds no evaluation, or one that is not finished.
    """
    results = []
    for folder in folders:
        places = sorted(path.parent for path in folder.rglob("settings.json"))
        if not places:
            raise ReleaseError(
                f"--results {folder}: no evaluation lies there; give a folder of `mempo eval run`"
            )
        for place in places:
            name = folder.resolve().name if place == folder else place.relative_to(folder).as_posix()
            results.append(_read(place, name, hashes))
    return results


def _read(place: Path, name: str, hashes: Mapping[str, str]) -> Result:
    from eval.errors import EvalError
    from eval.sample_log import read_folder
    from eval.summary import summarize

    try:
        settings, samples = read_folder(place)
        asked = int(settings["data"]["questions"])
        model = dict(settings["model"])
        if len(samples) != asked:
            raise ReleaseError(
                f"{place} is not finished: {len(samples)} of {asked} questions; run the same evaluation again"
            )
        summary = summarize(list(samples.values()))
    except (EvalError, KeyError, TypeError) as error:
        raise ReleaseError(f"{place} is not the folder of an evaluation: {error!r}") from error
    return Result(
        name,
        hashes.get(str(model.get("sha256")), OTHER),
        settings,
        summary,
        tuple(sorted({str(sample["data_source"]) for sample in samples.values()})),
        samples,
    )
