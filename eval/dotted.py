"""Values of nested records by dotted names, as settings and fields are named on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ABSENT: Any = object()


def value_at(record: Mapping[str, Any], name: str) -> Any:
    """The value under a dotted name such as `agent.context`, or `ABSENT`."""
    value: Any = record
    for key in name.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return ABSENT
        value = value[key]
    return value
