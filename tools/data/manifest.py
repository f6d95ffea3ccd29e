"""`manifest.json` of a data folder: what went in, what came out, and how. No time, host or path, so runs compare."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tools.hashing import file_sha256

NAME = "manifest.json"


def fingerprint(path: Path) -> dict[str, Any]:
    """Name, size in bytes and SHA-256 of a file."""
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": file_sha256(path)}


def write_manifest(
    folder: Path, inputs: Iterable[Path], outputs: Iterable[Path], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Writes and returns the manifest: `facts`, then fingerprints of inputs and outputs."""
    manifest = {
        **facts,
        "inputs": [fingerprint(path) for path in inputs],
        "outputs": [fingerprint(path) for path in outputs],
    }
    text = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
    (folder / NAME).write_text(text, encoding="utf-8")
    return manifest


def listed_outputs(folder: Path) -> list[str] | None:
    """Names of the files that the manifest of a data folder lists; None without a manifest.

    Raises:
        ValueError: the manifest is none of a data folder.
    """
    try:
        manifest = json.loads((folder / NAME).read_text(encoding="utf-8"))
        return [Path(entry["name"]).name for entry in manifest["outputs"]]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / NAME} is not of `mempo data`") from error


def changed_outputs(folder: Path) -> list[str]:
    """Names of a data folder's files that are missing or differ from its manifest; the manifest's own if it is missing."""
    try:
        manifest = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return [NAME]
    return [
        entry["name"]
        for entry in manifest["outputs"]
        if not (folder / entry["name"]).is_file() or fingerprint(folder / entry["name"]) != entry
    ]
