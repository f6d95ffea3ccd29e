"""A text as a value in Hydra's override grammar."""

from __future__ import annotations

import re


def quoted(text: object) -> str:
    """In double quotes, so that blanks, commas, brackets, `=` and letters outside of ASCII stand for themselves."""
    # Hydra takes a backslash for an escape only where quotes follow.
    inner = re.sub(r'(\\*)"', r'\1\1\\"', str(text))
    return '"' + re.sub(r"(\\+)$", r"\1\1", inner) + '"'
