"""Answers in `\\boxed{…}`, as mathematics and MemAgent (arXiv 2507.02259) state them."""

from __future__ import annotations

import re

OPENING = "\\boxed{"
CLOSING = "}"

_OPEN = re.compile(r"\\boxed\s*\{")


def boxed_answer(text: str) -> str | None:
    """The content of the last closed box, without spaces around it; None if there is none. Braces inside are paired."""
    for start in reversed([match.end() for match in _OPEN.finditer(text)]):
        depth = 1
        for place in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if not depth:
                return text[start:place].strip()
    return None
