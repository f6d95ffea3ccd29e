"""A text made by rule, with the question about it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class GeneratedText:
    """A text, its question, and the right answers in the order in which the question asks for them."""

    text: str
    question: str
    answers: list[str]


class TextMaker(Protocol):
    """A kind of text that can be made in any length.

    Attributes:
        name: of the kind; the `data_source` of its rows.
        to_shorten: which options make the shortest text shorter, as the end of an error message; "" if none does.
        least: the fewest parts of a text.
    """

    @property
    def name(self) -> str: ...

    @property
    def to_shorten(self) -> str: ...

    @property
    def least(self) -> int: ...

    def make(self, parts: int, rng: random.Random) -> GeneratedText:
        """A text of so many parts; what a part is, the kind says.

        More parts make a longer text about the same question: with the same `rng`, question and answers stay.
        """

    def places(self, text: str, answer: str) -> list[int]:
        """Where an answer stands in its text, in characters from 0."""


def word_places(text: str, word: str) -> list[int]:
    """Where a word stands in a text, in characters from 0."""
    return [found.start() for found in re.finditer(rf"\b{re.escape(word)}\b", text)]
