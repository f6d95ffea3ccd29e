"""Folders that are built once per content."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tools.data.derived import derived_files

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
        FileExistsError: `out` holds something that this function did not build, or that was changed since.
    """
    code = tuple(code)
    key, maker = content_hash(settings, code), next(iter(code), "")
    marker = out / MARKER
    if marker.is_file() and json.loads(marker.read_text(encoding="utf-8"))["hash"] == key:
        return out
    _check_own(out, maker)
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        write(partial)
        built = {"hash": key, "maker": maker, "files": _sizes(partial)}
        (partial / MARKER).write_text(json.dumps(built) + "\n", encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return out


def _check_own(out: Path, maker: str) -> None:
    """Raises FileExistsError if `out` must not be replaced. Folders of earlier versions do not say what they held."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / MARKER).is_file():
        raise FileExistsError(
            f"{out} is not empty and was not built here: choose another folder or remove it"
        )
    built = json.loads((out / MARKER).read_text(encoding="utf-8"))
    if built.get("maker", maker) != maker:
        raise FileExistsError(
            f"{out} was built by another command ({built['maker']}): choose another folder or remove it"
        )
    known = built.get("files")
    if known is None:
        return
    kept = set(derived_files(out))
    odd = [name for name, size in _sizes(out).items() if known.get(name) != size and name not in kept]
    if odd:
        raise FileExistsError(
            f"{out / odd[0]} was added or changed after the folder was built: move it away, or choose another folder"
        )


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of every file, by its name below the folder; the marker left out."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
