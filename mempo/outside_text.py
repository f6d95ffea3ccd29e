"""Text from outside as text that can be encoded: a lone surrogate, which no tokenizer, file or request takes, is U+FFFD."""

from __future__ import annotations

import json
import re
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
# How one gets into the text of JSON: as it is, or as an escape. A pair of escapes is one character and no surrogate.
_MAY_HOLD_ONE = re.compile("[\ud800-\udfff]|\\\\u[dD][89a-fA-F]")


def well_formed(text: str) -> str:
    """The text with U+FFFD for every lone surrogate."""
    return _SURROGATE.sub("\ufffd", text)


def load_json(content: str | bytes) -> Any:
    """`json.loads`, with `well_formed` strings, names of fields among them. Raises ValueError as that does."""
    text = (
        content
        if isinstance(content, str)
        else content.decode(json.detect_encoding(content), "surrogatepass")
    )
    value = json.loads(text)
    return _well_formed(value) if _MAY_HOLD_ONE.search(text) else value


def _well_formed(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [_well_formed(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(name): _well_formed(item) for name, item in value.items()}
    return value
