"""Data and models that are built once per content: the key covers the settings, the inputs and the code that builds."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tools.run.places import ROOT
from tools.run.stages import Say, content_key

DONE = "complete"  # written into a folder last; without it the folder is half-built


def source_hash(packages: Iterable[str]) -> str:
    """SHA-256 over the Python files of packages of ours, e.g. `tools/world`: new code builds anew."""
    digest = hashlib.sha256()
    for package in packages:
        place = ROOT / package
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            digest.update(str(path.relative_to(ROOT)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def cached(
    parent: Path, values: Mapping[str, Any], build: Callable[[Path], None], say: Say = lambda line: None
) -> Path:
    """The folder `parent/<key of values>`, built by `build(folder)` unless it is there complete.

    A second process waits for the first. An interrupted build is removed and begun anew.
    """
    folder = parent / content_key(values)
    parent.mkdir(parents=True, exist_ok=True)
    with (parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / DONE).exists():
            say(f"found in {folder}")
            return folder
        if folder.exists():
            say(f"an earlier build of {folder} was interrupted: beginning anew")
            shutil.rmtree(folder)
        folder.mkdir()
        build(folder)
        (folder / DONE).write_text(content_key(values) + "\n", encoding="utf-8")
    return folder
