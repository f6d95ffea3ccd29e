"""Gold answers as people write them into JSON files."""

from __future__ import annotations

from typing import Any


def alias_lists(value: Any) -> list[list[str]]:
    """One list of aliases per objective.

    Args:
        value: a string (one answer), a list of strings (aliases of one answer), or a list of lists of strings (one list
            of aliases per objective).

    Raises:
        ValueError: anything else, or an answer that is missing or blank.
    """
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        value = [value]
    right = isinstance(value, list) and all(
        isinstance(aliases, list) and aliases and all(isinstance(alias, str) for alias in aliases)
        for aliases in value
    )
    if not right or not value:
        raise ValueError(
            "a string, a list of aliases or a list of lists of aliases is expected, none of them empty; write numbers and "
            "booleans as texts"
        )
    if not all(alias.strip() for aliases in value for alias in aliases):
        raise ValueError("an answer is blank: leave it out")
    return value
