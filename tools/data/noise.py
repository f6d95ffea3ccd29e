"""A text of no interest, to hide sentences in, in the manner of RULER (arXiv 2404.06654)."""

from __future__ import annotations

import random
from collections.abc import Sequence

NOISE = (
    "The grass is green.",
    "The sky is blue.",
    "The sun is yellow.",
    "Here we go.",
    "There and back again.",
)


def hide_in_noise(hidden: Sequence[str], parts: int, rng: random.Random) -> str:
    """The sentences in their order, at drawn places among `parts` sentences of noise, no two of them side by side.

    Args:
        parts: at least one less than there are sentences to hide.
    """
    at = dict(zip(sorted(rng.sample(range(parts + 1), len(hidden))), hidden, strict=True))
    sentences = []
    for place in range(parts + 1):
        if place in at:
            sentences.append(at[place])
        if place < parts:
            sentences.append(NOISE[place % len(NOISE)])
    return " ".join(sentences)
