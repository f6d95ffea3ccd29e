"""Records of a JSON file: JSON lines, or one list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eval.errors import EvalError
from mempo.outside_text import load_json


def read_json_records(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """(place, record) of each record; the place is `line 7` for JSON lines and `record 7` for a list, both from 1.

    Raises:
        EvalError: the file cannot be read, or something in it is not a JSON object, by place; also for no record.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise EvalError(f"{path} cannot be read as UTF-8 text: {error}") from error
    if text.lstrip().startswith("["):
        found = [(f"record {number}", item) for number, item in enumerate(_parse(path, "", text), 1)]
    else:
        # Not splitlines(): JSON text may hold U+2028 and its like unescaped.
        lines = [(f"line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        found = [(place, _parse(path, f", {place}", line)) for place, line in lines]
    if not found:
        raise EvalError(f"{path}: no records; JSON lines or a JSON list of objects is expected")
    for place, record in found:
        if not isinstance(record, dict):
            raise EvalError(f"{path}, {place}: an object is expected, got {type(record).__name__}")
    return found


def _parse(path: Path, where: str, text: str) -> Any:
    try:
        return load_json(text)
    except ValueError as error:
        raise EvalError(f"{path}{where}: not JSON: {error}") from error
