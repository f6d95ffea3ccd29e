"""Hydra's own words on what cannot be composed, as one line that names the key and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from hydra.errors import OverrideParseException

from tools.run.schema.unknown import unknown

_NO_KEY = re.compile(r"Could not (?:override|delete from config\.) '([^']+)'")
_NO_CHOICE = re.compile(
    r"Could not find '([^']+)/([^'/]+)'\s+Available options in '[^']+':\s+(.*)", re.DOTALL
)
_OTHER_KIND = re.compile(r"Error merging override \+*([^=]+)=(.*)")
_NO_FILE = re.compile(r"In '([^']+)': Could not load '([^']+)'")
_NOTED = re.compile(
    r"LexerNoViableAltException:|\n\s*\^|See https?://\S+ for details|expecting \{.*"
    r"|,? possible interpolation keys:.*|Config search path:.*|full_key:.*|object_type=.*",
    re.DOTALL,
)


def explained(error: Exception, known: Callable[[], Iterable[str]]) -> str:
    """One line.

    Args:
        error: what Hydra, OmegaConf or the YAML reader raised.
        known: the keys that there are; asked only where one is needed.
    """
    said = str(error).strip()
    if match := _NO_KEY.search(said):
        return _no_key(match[1], list(known()))
    if match := _NO_CHOICE.search(said):
        options = re.split(r"\s*Config search path", match[3])[0].split()
        return f"{match[1]} is {match[2]!r}: write one of {', '.join(options)}"
    if match := _NO_FILE.search(said):
        return f"{match[2]!r}, in the defaults of {match[1]}, is no file beside it, in configs/ or of verl's"
    if match := _OTHER_KIND.search(said):
        return f"{match[1]} is {match[2]}: what stands there is a list, a group of keys or a single value; write the same"
    plain = " ".join(_NOTED.sub("", said).split())
    if isinstance(error, OverrideParseException):
        return (
            f"this override cannot be read: {plain}; write KEY=VALUE, and values with signs like ~ [ # in quotes: "
            f"KEY='\"VALUE\"'; what was given is {error.override}"
        )
    return plain


def _no_key(key: str, known: list[str]) -> str:
    if key in known and not key.startswith("task."):
        return f"{key} is a key that this recipe does not have: write +{key}=..."
    return unknown(key, known, "see configs/mempo_base.yaml for ours")
