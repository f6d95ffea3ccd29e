"""How long a generated text may be, and the largest one that is not longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tools.data.records import DataError
from tools.data.token_counter import token_counter


@dataclass(frozen=True)
class TextSize:
    """A limit in characters, or in the tokens of a tokenizer.

    Attributes:
        characters: the most characters, or None.
        tokens: the most tokens (with `tokenizer`), or None; exactly one of the two is given.
        tokenizer: folder or name of a Hugging Face tokenizer.
    """

    characters: int | None = None
    tokens: int | None = None
    tokenizer: str | None = None

    def __post_init__(self) -> None:
        if (self.characters is None) == (self.tokens is None):
            raise DataError("a text's length: give exactly one of --characters and --tokens")
        if (self.tokens is None) != (self.tokenizer is None):
            raise DataError("--tokens and --tokenizer belong together: give both or neither")

    @property
    def unit(self) -> str:
        return "characters" if self.tokens is None else "tokens"

    @property
    def limit(self) -> int:
        limit = self.characters if self.tokens is None else self.tokens
        assert limit is not None
        return limit

    @cached_property
    def measure(self) -> Callable[[str], int]:
        """The length of a text, in `unit`."""
        return len if self.tokenizer is None else token_counter(self.tokenizer)


def largest(size: Callable[[int], int], limit: int, least: int) -> int | None:
    """The number of parts with which a text comes closest to its limit: n fits, and n + 1 does not.

    None if the fewest parts are too long already.

    Args:
        size: the text's length for a number of parts; grows without bound, about in proportion.
        least: the fewest parts (at least 1).
    """
    low, low_size = least, size(least)
    if low_size > limit:
        return None
    high = 2 * least
    while (high_size := size(high)) <= limit:
        low, low_size, high = high, high_size, 2 * high
    straight = True  # interpolation, then halving by turns: few lengths are measured, whatever the curve
    while high - low > 1:
        share = (limit - low_size) / (high_size - low_size) if straight else 0.5
        middle = min(max(low + int(share * (high - low)), low + 1), high - 1)
        measured = size(middle)
        if measured <= limit:
            low, low_size = middle, measured
        else:
            high, high_size = middle, measured
        straight = not straight
    return low
