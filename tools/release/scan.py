"""Secrets and local paths in files that are about to be published."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.release.errors import ReleaseError
from tools.release.manifest import release_files

# Bounded on the left, so that no token of a vocabulary and no part of a longer word is taken for one.
SECRETS = {
    "a Hugging Face token": r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,}",
    "an API key": r"(?<![A-Za-z0-9_-])sk-[A-Za-z0-9_-]{20,}",
    "an AWS key": r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    "a GitHub token": r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22,})",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
}
PATHS = {
    "a home directory": r"(?<![A-Za-z0-9])/(?:home|Users)/[A-Za-z0-9._-]+|(?<![A-Za-z0-9/])/root/[A-Za-z0-9._-]+",
    "a Windows home directory": r"[A-Za-z]:\\{1,2}Users\\{1,2}[A-Za-z0-9._-]+",
    "a temporary folder": r"(?<![A-Za-z0-9/:._-])/(?:tmp|var/tmp)/[A-Za-z0-9._-]+",
}
PATTERNS = {kind: re.compile(pattern) for kind, pattern in (SECRETS | PATHS).items()}
# Their values must not be found either, whatever they look like.
SECRET_VARIABLES = re.compile(r"(?:^|_)(?:TOKEN|KEY|SECRET|PASSWORD)$")
SHORTEST_SECRET = 12
CHUNK, OVERLAP = 1 << 24, 1 << 12


def leaks(folder: Path, local: Iterable[Path] = ()) -> list[str]:
    """One line for each file and kind of what must not be published; the secret itself is not repeated.

    Args:
        local: paths of this machine that must not occur either, e.g. the run's folder.
    """
    exact = {f"the local path {path}": str(path) for path in (*local, Path.home()) if len(path.parts) > 2}
    exact |= {f"the value of ${name}": value for name, value in _secret_values()}
    found = []
    for name in release_files(folder):
        kinds = {kind: line for line, kind in _in_file(folder / name, exact)}
        found += [f"{name} holds {kind}{line}" for kind, line in kinds.items()]
    return found


def _in_file(path: Path, exact: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(`, line N` or nothing, kind) of everything found."""
    for before, text in _texts(path):
        for kind, pattern in PATTERNS.items():
            if match := pattern.search(text):
                yield f", line {before + text.count(chr(10), 0, match.start()) + 1}", kind
        for kind, value in exact.items():
            if value in text:
                yield "", kind


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """What can be read in a file, each part with the lines before it.

    That is the head of weights, the values of a table, and else all of it, in overlapping parts.
    """
    if path.suffix == ".safetensors":
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            yield 0, file.read(min(size, CHUNK)).decode("utf-8", errors="replace")
    elif path.suffix == ".parquet":
        yield from _rows(path)
    else:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            tail, before = "", 0
            while part := file.read(CHUNK):
                yield before, tail + part
                before += (tail + part).count("\n") - part[-OVERLAP:].count("\n")
                tail = part[-OVERLAP:]


def _rows(path: Path) -> Iterator[tuple[int, str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(path).iter_batches():
            yield 0, "\n".join(json.dumps(row, ensure_ascii=False, default=str) for row in batch.to_pylist())
    except (pa.ArrowException, OSError) as error:
        raise ReleaseError(f"{path.name} is no readable table: {error}") from error


def _secret_values() -> Iterator[tuple[str, str]]:
    for name, value in os.environ.items():
        if SECRET_VARIABLES.search(name) and len(value) >= SHORTEST_SECRET:
            yield name, value
