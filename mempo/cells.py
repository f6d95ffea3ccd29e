"""Cells of a row of questions, taken as they are: a value of another type is refused, never made into the right one.

`str(None)` is a question, `list("rome")` four answers and `str(float("nan"))` a gold answer; a run on them ends without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np


def text(value: Any, field: str, remedy: str = "write a text", *, blank: bool = False) -> str:
    """A string, not blank unless `blank`. Raises ValueError with the field, what was found, and the remedy."""
    if not isinstance(value, str) or not (blank or value.strip()):
        raise ValueError(f"{field} is {found(value)}: {remedy}")
    return value


def whole_number(value: Any, field: str, least: int = 0) -> int:
    """An integer of Python or numpy. Raises ValueError as `text`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{field} is {found(value)}: write a whole number of at least {least}")
    return int(value)


def items(value: Any, field: str, remedy: str) -> list[Any]:
    """The items of a list; parquet's list columns may come as numpy arrays. Raises ValueError as `text`."""
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
    if not listed and not (isinstance(value, np.ndarray) and value.ndim):
        raise ValueError(f"{field} is {found(value)}: {remedy}")
    return list(value)


def record(value: Any, field: str) -> Mapping[str, Any]:
    """A record of named fields. Raises ValueError as `text`."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{field} is {found(value)}: write a record of its fields (a parquet struct)")
    return value


def found(value: Any) -> str:
    """What a cell holds, in words."""
    if value is None:
        return "empty (null)"
    if isinstance(value, str):
        shown = value if len(value) <= 60 else value[:60] + "…"
        return f"the text {shown!r}" if value.strip() else f"the blank text {shown!r}"
    if isinstance(value, bytes | bytearray):
        return f"bytes ({bytes(value[:20])!r})"
    if isinstance(value, bool | np.bool_):
        return f"the truth value {value}"
    if isinstance(value, int | float | np.number):
        return "NaN" if isinstance(value, float | np.floating) and isnan(value) else f"the number {value}"
    if isinstance(value, list | tuple | np.ndarray):
        return "an empty list" if not np.size(value) else "a list"
    return f"a {type(value).__name__}"
