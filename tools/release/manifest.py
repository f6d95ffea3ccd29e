"""`release.json`: every file of a release with its size and SHA-256, and what was found out about it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.data.manifest import fingerprint
from tools.hashing import file_sha256
from tools.release.errors import ReleaseError

NAME = "release.json"
VERSION = 1
KINDS = ("model", "dataset")
SEAL = "sha256"  # of the rest of release.json, so that a changed figure in it is seen too
# What the hub and its client put beside the files of a repository.
HUB_FILES = (".gitattributes",)
HUB_FOLDERS = (".cache/huggingface", ".git")


def release_files(folder: Path) -> list[str]:
    """Relative names of all files, those of the hub's own left out, sorted."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()]
    return sorted(
        name
        for name in names
        if name not in HUB_FILES and not any(name.startswith(f"{place}/") for place in HUB_FOLDERS)
    )


def write_manifest(folder: Path, kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Writes and returns release.json: `facts`, then a line for each other file. The last file to be written."""
    files = [{**fingerprint(folder / name), "name": name} for name in release_files(folder) if name != NAME]
    content = {"version": VERSION, "kind": kind, **facts, "files": files}
    content[SEAL] = _seal(content)
    (folder / NAME).write_text(_text(content), encoding="utf-8")
    return content


def read_manifest(folder: Path) -> dict[str, Any]:
    """The content of release.json.

    Raises:
        ReleaseError: it is missing, changed, or of another version.
    """
    path = folder / NAME
    try:
        written = path.read_text(encoding="utf-8")
        content = json.loads(written)
    except FileNotFoundError:
        raise ReleaseError(f"{NAME} is missing: {folder} is no release, or not a whole one") from None
    except (OSError, ValueError) as error:
        raise ReleaseError(
            f"{NAME} is not readable JSON ({error}): fetch or make the release again"
        ) from error
    sealed = isinstance(content, dict) and content.get(SEAL) == _seal(content) and written == _text(content)
    if not sealed:
        raise ReleaseError(f"{NAME} was changed after the release was made: fetch or make the release again")
    if content["version"] != VERSION or content["kind"] not in KINDS:
        raise ReleaseError(f"{NAME} is of version {content['version']}: use the mempo that made it")
    return dict(content)


def file_problems(folder: Path, manifest: Mapping[str, Any]) -> list[str]:
    """One line for every file that is missing, changed or too many, naming it."""
    listed = {entry["name"]: entry for entry in manifest["files"]}
    problems = []
    for name, entry in listed.items():
        path = folder / name
        if not path.is_file():
            problems.append(f"{name} is missing")
        elif (size := path.stat().st_size) != entry["bytes"]:
            problems.append(f"{name} has {size} bytes, {entry['bytes']} were released")
        elif file_sha256(path) != entry["sha256"]:
            problems.append(f"{name} was changed: its SHA-256 is not the released one")
    extra = [name for name in release_files(folder) if name not in listed and name != NAME]
    return problems + [f"{name} does not belong to the release" for name in extra]


def _seal(content: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
