"""What one config key takes, and the words that say what to write instead."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

LARGEST = 2**31 - 1  # of a count, unless its rule says otherwise
SHOWN = 60  # characters of a wrong value
_OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

Check = Callable[[Any], str | None]


@dataclass(frozen=True)
class Rule:
    """What one key takes.

    Attributes:
        remedy: value → what to write instead; None if the value is right.
        null: whether null is a value too.
        needed: whether the key has to be there.
    """

    remedy: Check
    null: bool = False
    needed: bool = True

    def or_null(self) -> Rule:
        """The same, and null."""
        return replace(self, null=True)

    def optional(self) -> Rule:
        """The same for a key that may be absent."""
        return replace(self, needed=False)

    def fault(self, key: str, value: Any) -> str | None:
        """One line on a wrong value of `key` (plain Python types), None for a right one."""
        if value is None and self.null:
            return None
        remedy = self.remedy(value)
        if remedy is None:
            return None
        return f"{key} is {shown(value)}: {remedy}{', or null' if self.null else ''}"


def shown(value: Any) -> str:
    """A value as the user wrote it, or nearly so, and not too long."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def whole(low: int = 1, high: int = LARGEST, why: str = "") -> Rule:
    """A whole number; neither a truth value nor a float is one."""

    def remedy(value: Any) -> str | None:
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            return _numeric(f"write a whole number of at least {low}{_because(why)}", value)
        return None if value <= high else f"write a whole number of at most {high}"

    return Rule(remedy)


def number(
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    below: float | None = None,
) -> Rule:
    """A finite number within bounds: `low` and `high` belong to them, `above` and `below` do not."""
    bounds = {"of at least": low, "above": above, "of at most": high, "below": below}
    range_ = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)

    def remedy(value: Any) -> str | None:
        fits = (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and math.isfinite(value)
            and (low is None or value >= low)
            and (above is None or value > above)
            and (high is None or value <= high)
            and (below is None or value < below)
        )
        return None if fits else _numeric(f"write a number {range_}", value)

    return Rule(remedy)


def flag() -> Rule:
    """True or false."""
    return Rule(lambda value: None if isinstance(value, bool) else "write true or false")


def text(words: str, pattern: str = r"(?s).*\S.*", *, digits: bool = False) -> Rule:
    """Text that matches `pattern` from end to end; `words` say what it is. Text that is blank names nothing.

    Args:
        digits: whether a whole number, which is what Hydra makes of text that is all digits, is meant as such text.
    """

    def remedy(value: Any) -> str | None:
        given = str(value) if digits and type(value) is int else value
        return None if isinstance(given, str) and re.fullmatch(pattern, given) else f"write {words}"

    return Rule(remedy)


def one_of(names: Iterable[str], *, own: bool = False) -> Rule:
    """One of some names, or, with `own`, the `module:function` of a user."""
    names = tuple(names)
    listed = ", ".join(names)
    remedy = f"write {'one of ' if len(names) > 1 else ''}{listed}{', or module:function' if own else ''}"

    def check(value: Any) -> str | None:
        known = isinstance(value, str) and (value in names or (own and _OWN.fullmatch(value)))
        return None if known else remedy

    return Rule(check)


def exactly(value: Any, why: str) -> Rule:
    """The one value that our layer works with, and why."""
    remedy = f"{why}; write {value if isinstance(value, str) else shown(value)}"
    return Rule(lambda given: None if type(given) is type(value) and given == value else remedy)


def parsed(parse: Callable[[str], Any], words: str) -> Rule:
    """Text that `parse` reads; it raises ValueError for what it cannot."""

    def remedy(value: Any) -> str | None:
        if not isinstance(value, str):
            return f"write {words}"
        try:
            parse(value)
        except ValueError:
            return f"write {words}"
        return None

    return Rule(remedy)


def listed(entry: Rule, *, holding: tuple[str, str] | None = None, single: bool = False) -> Rule:
    """A list, not empty, of what `entry` takes.

    Args:
        holding: what must be in it, and why.
        single: whether one entry may stand for a list of one.
    """

    def remedy(value: Any) -> str | None:
        if single and not isinstance(value, list):
            return entry.remedy(value)
        if not isinstance(value, list) or not value:
            return f"write a list; for each entry {entry.remedy(None)}"
        for item in value:
            if wrong := entry.remedy(item):
                return f"its entry {shown(item)} is wrong: {wrong}"
        return f"it must list {holding[0]}: {holding[1]}" if holding and holding[0] not in value else None

    return Rule(remedy)


def left_alone(instead: str) -> Rule:
    """A key that the run itself fills in."""
    return Rule(lambda value: None if value is None else f"the run fills it in; {instead}")


def _numeric(remedy: str, value: Any) -> str:
    try:
        quoted = isinstance(value, str) and math.isfinite(float(value))
    except ValueError:
        quoted = False
    return f"{remedy}; what is there is text, so leave out the quotes" if quoted else remedy


def _because(why: str) -> str:
    return f"; {why}" if why else ""
