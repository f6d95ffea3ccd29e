"""Files of a run that are written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Writes a file in one go: a reader never sees half of it.

    Raises:
        OSError: with the file's name, which an error of writing does not have by itself.
    """
    scratch = path.with_name(f"{path.name}.tmp")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_json(path: Path, content: Any) -> None:
    """The same for JSON; what JSON does not know is written as text."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n")
