"""A short name for the exact content of a training row, so that rows can be compared without keeping them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence


def row_digest(
    prompt_ids: Sequence[int],
    response_ids: Sequence[int],
    response_mask: Sequence[int],
    logprobs: Sequence[float],
    spans: Iterable[Sequence[int]],
) -> str:
    """SHA-256 over ids, mask, log-probs (to the last bit) and memory spans."""
    content = [
        list(map(int, prompt_ids)),
        list(map(int, response_ids)),
        list(map(int, response_mask)),
        [float(value).hex() for value in logprobs],
        [list(map(int, span)) for span in spans],
    ]
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
