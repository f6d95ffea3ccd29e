"""The folder of one evaluation: its settings, its samples as they finish, its summary. Makes a run resumable."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from eval.errors import EvalError
from eval.sample import Sample

SETTINGS, SAMPLES, SUMMARY = "settings.json", "samples.jsonl", "summary.json"
TEMPLATE = "chat_template_kwargs"  # options of the chat template; left out where there are none
REMARKS = "remarks"  # the settings below it are for a reader, and make no difference


class SampleLog:
    """Appends samples to `samples.jsonl`; a folder belongs to one set of settings.

    `settings` holds all that could change a sample (model, data, agent, sampling), as JSON types. Opening a folder
    that was begun with other settings is an error that names the differences.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder, self.settings = folder, json.loads(json.dumps(settings))
        self.samples: dict[str, Sample] = {}
        self._lock: int | None = None

    @property
    def hash(self) -> str:
        """SHA-256 of the settings, remarks left out."""
        compared = {name: value for name, value in self.settings.items() if name != REMARKS}
        return hashlib.sha256(json.dumps(compared, sort_keys=True).encode()).hexdigest()

    def __enter__(self) -> SampleLog:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self.folder)
        try:
            self._guard()
            self.samples = _open_samples(self.folder / SAMPLES)
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def append(self, sample: Sample) -> None:
        """Writes a finished sample at once: what is in the file survives a kill."""
        if self._lock is None:
            raise EvalError(f"{self.folder}: the sample log is not open")
        if sample["id"] in self.samples:
            raise EvalError(f"{self.folder}: question {sample['id']!r} has a sample already")
        with (self.folder / SAMPLES).open("ab") as file:
            file.write(_line(sample))
        self.samples[sample["id"]] = sample

    def drop_failed(self) -> int:
        """Removes the failed samples, so that they are tried again; returns how many."""
        if self._lock is None:
            raise EvalError(f"{self.folder}: the sample log is not open")
        kept = {name: sample for name, sample in self.samples.items() if not sample["failure"]}
        dropped = len(self.samples) - len(kept)
        if dropped:
            (self.folder / SUMMARY).unlink(
                missing_ok=True
            )  # first: it must never claim an unfinished run is done
            path = self.folder / SAMPLES
            temporary = path.with_name(path.name + ".tmp")
            temporary.write_bytes(b"".join(map(_line, kept.values())))
            temporary.replace(path)
            self.samples = kept
        return dropped

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        write_json(self.folder / SUMMARY, {"hash": self.hash, **summary})

    def finished(self) -> dict[str, Any] | None:
        """The summary, if these very settings were evaluated to the end; opens nothing, starts nothing."""
        try:
            summary = json.loads((self.folder / SUMMARY).read_text())
        except (OSError, ValueError):
            return None
        return summary if isinstance(summary, dict) and summary.get("hash") == self.hash else None

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _guard(self) -> None:
        path = self.folder / SETTINGS
        if not path.exists():
            there = [name for name in (SAMPLES, SUMMARY) if (self.folder / name).exists()]
            if there:
                raise EvalError(
                    f"{self.folder} holds {there[0]} without {SETTINGS}, so it is of something else: choose another folder"
                )
            write_json(path, self.settings)
            return
        try:
            begun = json.loads(path.read_text())
        except ValueError as error:
            raise EvalError(f"{path} is not JSON ({error}): choose another folder") from error
        odd = differences(begun, self.settings)
        if odd:
            raise EvalError(
                f"{self.folder} was begun with other settings: {'; '.join(odd)}. Give these again to continue, or "
                "choose another folder"
            )


def read_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Sample]]:
    """Settings and samples (by id) of a run that was begun.

    Raises:
        EvalError: if the folder is none of ours.
    """
    try:
        settings = json.loads((folder / SETTINGS).read_text())
        with (folder / SAMPLES).open("rb") as file:
            return settings, _parse(file.read(), folder / SAMPLES)[0]
    except (OSError, ValueError) as error:
        raise EvalError(f"{folder} is not the folder of an evaluation: {error}") from error


def differences(old: Mapping[str, Any], new: Mapping[str, Any], ignore: Collection[str] = ()) -> list[str]:
    """`name: old → new` for every setting that differs, nested ones by dotted name.

    Args:
        ignore: names that may differ; `agent` covers `agent.context`.
    """
    flat_old, flat_new = _flat(old), _flat(new)
    return [
        f"{name}: {flat_old.get(name)!r} → {flat_new.get(name)!r}"
        for name in sorted(flat_old.keys() | flat_new.keys())
        if flat_old.get(name) != flat_new.get(name)
        and not any(f"{name}.".startswith(f"{prefix}.") for prefix in (*ignore, REMARKS))
    ]


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    temporary.replace(path)


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            flat |= _flat(inner, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = inner
    return flat


def _line(sample: Sample) -> bytes:
    return (json.dumps(sample, ensure_ascii=True, allow_nan=False) + "\n").encode()


def _open_samples(path: Path) -> dict[str, Sample]:
    """The samples of a file, which is made if missing; a last line that a kill cut short is taken off."""
    with path.open("a+b") as file:
        file.seek(0)
        samples, whole = _parse(file.read(), path)
        file.truncate(whole)
    return samples


def _parse(content: bytes, path: Path) -> tuple[dict[str, Sample], int]:
    whole = content.rfind(b"\n") + 1
    samples: dict[str, Sample] = {}
    for number, line in enumerate(content[:whole].splitlines(), 1):
        try:
            sample = json.loads(line)
            name = str(sample["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise EvalError(
                f"{path}, line {number}: not a sample ({error}); remove the line or the folder"
            ) from error
        if name in samples:
            raise EvalError(f"{path}, line {number}: question {name!r} occurs twice")
        samples[name] = sample
    return samples, whole


def _lock(folder: Path) -> int:
    """Locks the folder for this process until the descriptor is closed; a dead process holds no lock."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise EvalError(f"{folder} is being written by another evaluation") from error
    return descriptor
