"""Folders that are built once per content."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

MARKER = "built.json"  # written last; a folder without it is half-built
_ROOT = Path(__file__).parents[2]


def content_hash(settings: Mapping[str, Any], code: Iterable[str]) -> str:
    """SHA-256 over settings (JSON types) and the Python files of `code` (paths from the repository's root)."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for name in code:
        place = _ROOT / name
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            digest.update(str(path.relative_to(_ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def build_once(
    out: Path, settings: Mapping[str, Any], code: Iterable[str], write: Callable[[Path], None]
) -> Path:
    """`out`, filled by `write(folder)` unless it was built from the same settings and code.

    The work is done in a folder beside it that takes its place when complete.

    Raises:
        FileExistsError: `out` holds something that this function did not build.
    """
    key = content_hash(settings, code)
    marker = out / MARKER
    if marker.is_file() and json.loads(marker.read_text(encoding="utf-8"))["hash"] == key:
        return out
    if out.exists() and any(out.iterdir()) and not marker.is_file():
        raise FileExistsError(
            f"{out} is not empty and was not built here: choose another folder or remove it"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        write(partial)
        (partial / MARKER).write_text(json.dumps({"hash": key}) + "\n", encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return out
