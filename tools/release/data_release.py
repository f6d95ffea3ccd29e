"""From a data folder to a release of it that has been loaded again: `mempo release-data`."""

from __future__ import annotations

import shutil
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.data.manifest import NAME as DATA_MANIFEST
from tools.data.manifest import changed_outputs
from tools.release.card import data_card, write_card
from tools.release.check import content_problems
from tools.release.errors import ReleaseError
from tools.release.licences import licences_of
from tools.release.manifest import write_manifest
from tools.release.model_release import building
from tools.release.scan import leaks
from tools.release.source import read_json

QUESTIONS = {"train": "train.parquet", "validation": "validation.parquet"}
# What lies beside the questions, each a configuration of its own with one split.
BESIDE = {"corpus": "corpus.jsonl", "supporting": "supporting.jsonl"}
SHOWN_SOURCES = 50


def make_data_release(data: Path, out: Path) -> dict[str, Any]:
    """Makes the folder and returns the content of its release.json. It is a data folder itself.

    Raises:
        ReleaseError: the data folder is not whole, a question is in both splits, or `out` exists already.
    """
    manifest = _whole(data)
    with building(out) as folder, TemporaryDirectory() as cache:
        names = [entry["name"] for entry in manifest["outputs"]]
        for name in (*names, DATA_MANIFEST):
            shutil.copyfile(data / name, folder / name)
        files = {"questions": {split: name for split, name in QUESTIONS.items() if name in names}}
        for config, name in BESIDE.items():
            if name in names:
                files[config] = {config: _as_table(folder / name, cache)}
        loaded = {config: _load(folder, splits, cache) for config, splits in files.items()}
        facts: dict[str, Any] = {
            "made_by": f"mempo {version('mempo')}",
            "dataset": manifest.get("dataset"),
            "seed": manifest.get("seed"),
            "inputs": manifest.get("inputs", []),
            "hashes": {entry["name"]: entry["sha256"] for entry in manifest["outputs"]},
            "configs": _configs(files),
            "features": [_info(config, sets) for config, sets in loaded.items()],
            **_counts(loaded),
        }
        write_card(folder, data_card(folder.name, facts))
        _prove(folder, files, loaded, cache)
        problems = content_problems(folder, {"kind": "dataset"}) + leaks(folder, [data.resolve()])
        if problems:
            raise ReleaseError(f"the release is not fit to be published: {'; '.join(problems)}")
        return write_manifest(folder, "dataset", facts)


def _whole(data: Path) -> dict[str, Any]:
    manifest = read_json(data / DATA_MANIFEST)
    if manifest is None:
        raise ReleaseError(
            f"{data}/{DATA_MANIFEST} is missing: give a folder that `mempo data` or `mempo world` wrote to the end"
        )
    changed = changed_outputs(data)
    if changed:
        raise ReleaseError(
            f"{data}: {', '.join(changed)} is not what {DATA_MANIFEST} lists: make the folder anew"
        )
    if QUESTIONS["validation"] not in [entry["name"] for entry in manifest["outputs"]]:
        raise ReleaseError(f"{data} has no {QUESTIONS['validation']}")
    return manifest


def _as_table(path: Path, cache: str) -> str:
    """Writes JSON lines as parquet too, and returns the file's name: the hub reads one format per repository."""
    from datasets import load_dataset

    table = path.with_suffix(".parquet")
    load_dataset("json", data_files=str(path), cache_dir=cache)["train"].to_parquet(table)
    return table.name


def _load(folder: Path, splits: dict[str, str], cache: str) -> Any:
    """The splits of one configuration, as the `datasets` library sees them."""
    from datasets import load_dataset

    files = {split: str(folder / name) for split, name in splits.items()}
    return load_dataset("parquet", data_files=files, cache_dir=cache)


def _prove(folder: Path, files: dict[str, dict[str, str]], loaded: dict[str, Any], cache: str) -> None:
    """The folder as a user loads it, by the configurations of its card.

    Raises:
        ReleaseError: it has other rows than its files.
    """
    from datasets import load_dataset

    for config in files:
        found = load_dataset(str(folder), config, cache_dir=cache)
        rows = {split: each.num_rows for split, each in found.items()}
        expected = {split: each.num_rows for split, each in loaded[config].items()}
        if rows != expected:
            raise ReleaseError(f"{folder}: configuration {config} loads as {rows}, its files hold {expected}")


def _configs(files: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    return [
        {
            "config_name": config,
            "data_files": [{"split": split, "path": name} for split, name in splits.items()],
            **({"default": True} if config == "questions" else {}),
        }
        for config, splits in files.items()
    ]


def _info(config: str, loaded: Any) -> dict[str, Any]:
    """Features and splits as the hub's metadata have them."""
    from datasets.info import DatasetInfo, DatasetInfosDict
    from datasets.splits import SplitDict, SplitInfo
    from huggingface_hub import DatasetCardData

    first = next(iter(loaded.values()))
    splits = SplitDict(
        {
            split: SplitInfo(split, num_bytes=each.data.nbytes, num_examples=each.num_rows)
            for split, each in loaded.items()
        }
    )
    card = DatasetCardData()
    DatasetInfosDict(
        {config: DatasetInfo(features=first.features, config_name=config, splits=splits)}
    ).to_dataset_card_data(card)
    return dict(card.to_dict()["dataset_info"])


def _counts(loaded: dict[str, Any]) -> dict[str, Any]:
    questions = loaded["questions"]
    ids = {split: {task["id"] for task in rows["task"]} for split, rows in questions.items()}
    both = sorted(set.intersection(*ids.values())) if len(ids) > 1 else []
    if both:
        raise ReleaseError(
            f"question {both[0]!r} is in train and validation ({len(both)} are): make the folder anew"
        )
    kinds = {
        split: Counter(
            (source, int(extra["hops"]), str(extra["type"]))
            for source, extra in zip(rows["data_source"], rows["extra_info"], strict=True)
        )
        for split, rows in questions.items()
    }
    listed = sorted({kind for counts in kinds.values() for kind in counts})
    return {
        "rows": {split: rows.num_rows for split, rows in questions.items()},
        "passages": loaded["corpus"]["corpus"].num_rows if "corpus" in loaded else 0,
        "kinds": [
            {
                "source": source,
                "hops": hops,
                "type": kind,
                **{split: kinds[split][source, hops, kind] for split in kinds},
            }
            for source, hops, kind in listed[:SHOWN_SOURCES]
        ],
        "kinds_left_out": max(0, len(listed) - SHOWN_SOURCES),
        "licences": [vars(licence) for licence in licences_of(source for source, _, _ in listed)],
    }
