"""What readers of a run's metrics.jsonl share: names that have changed, and what P_memory was compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# `memory/reference/<memory.reference>` is 1 beside `memory/p_reference`.
REFERENCE = "memory/reference/"
_NAMES = {"history": "whole history", "previous_memory": "previous memory"}
# Until it was named for what it is, also where the reference was the previous memory.
_EARLIER = {"memory/p_full": "memory/p_reference"}


def current_names(step: Mapping[str, Any]) -> dict[str, Any]:
    """A step's metrics under the names of this version, whichever version wrote them."""
    return {_EARLIER.get(name, name): value for name, value in step.items()}


def reference_name(steps: Iterable[Mapping[str, Any]]) -> str:
    """What `memory/p_reference` of a run is given, in words.

    Args:
        steps: under their current names.
    """
    found = (_reference(step) for step in steps if "memory/p_reference" in step)
    return _NAMES.get(next(found, ""), "reference")


def _reference(step: Mapping[str, Any]) -> str:
    said = [name for name in _NAMES if step.get(f"{REFERENCE}{name}")]
    # Earlier versions did not say; but only the history leaves first memories unscored.
    return said[0] if said else "history" if step.get("memory/first") else "previous_memory"
