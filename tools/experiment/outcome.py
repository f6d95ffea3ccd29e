"""What an experiment measures of each run, by name. More is better in all of them."""

from __future__ import annotations

import re
from collections.abc import Collection

REWARD_AREA = "train.reward.area"  # area under the training reward over the steps, divided by their number
EVALUATED = ("em", "f1", "format_share")
_AFTER = re.compile(r"eval\.after\.([a-z0-9]+)\.([a-z0-9_]+)")


def after(mode: str, key: str) -> str:
    """The name of a number of the evaluation after training, e.g. `eval.after.window1.em`."""
    return f"eval.after.{mode}.{key}"


def mode_of(name: str) -> str | None:
    """The context mode of an outcome whose EM is known for each question; None for other outcomes."""
    match = _AFTER.fullmatch(name)
    return match[1] if match is not None and match[2] == "em" else None


def outcome_fault(name: str, modes: Collection[str]) -> str | None:
    """Why `name` is no outcome of runs that are evaluated in `modes` (`history`, `window1`); None if it is one."""
    if name == REWARD_AREA:
        return None
    match = _AFTER.fullmatch(name)
    if match is None:
        return (
            f"{name!r} is no outcome: write {REWARD_AREA} or eval.after.MODE.KEY, e.g. eval.after.window1.em"
        )
    if match[1] not in modes:
        return f"{name!r}: no evaluation in mode {match[1]!r} among contexts ({', '.join(modes)})"
    if match[2] not in EVALUATED:
        return f"{name!r}: {match[2]!r} is none of {', '.join(EVALUATED)}"
    return None
