"""Pages and tables that a command writes for a reader: sealed, so that it replaces its own earlier ones and nothing else."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from eval.errors import EvalError

SEAL = (
    "mempo sha256:"  # stands in the text once, before anything that comes from outside; the hash follows it
)
_LENGTH = 64


def check_own(*paths: Path) -> None:
    """Before the work: whether files may be written.

    Raises:
        EvalError: a path is there and no sealed file, or was changed since; or two of them are the same.
    """
    for number, path in enumerate(paths):
        if any(path.resolve() == other.resolve() for other in paths[:number]):
            raise EvalError(f"{path} is given twice: choose another file for one of them")
        if path.exists() and not (path.is_file() and _is_own(path.read_bytes())):
            raise EvalError(
                f"{path} is there already, and not as mempo wrote it: choose another file, or move it away"
            )


def write_sealed(path: Path, text: str) -> None:
    """Writes a text with its seal, whole or not at all, and makes its folder.

    Args:
        text: with `SEAL` in it.

    Raises:
        EvalError: as `check_own`.
    """
    check_own(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(_sealed(text.encode()))
    temporary.replace(path)


def _sealed(content: bytes) -> bytes:
    before, seal, after = content.partition(SEAL.encode())
    return before + seal + hashlib.sha256(content).hexdigest().encode() + after


def _is_own(content: bytes) -> bool:
    before, seal, after = content.partition(SEAL.encode())
    return bool(seal) and _sealed(before + seal + after[_LENGTH:]) == content
