"""Frequent words in the manner of RULER (arXiv 2404.06654): made-up words whose numbers follow Zipf's law.

The word of rank r occurs n / r^exponent times, rounded down, n being how often the first one does. The three most frequent
are asked for, the most frequent one first; their numbers differ, so that every answer has its place.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count, takewhile
from math import ceil
from typing import ClassVar

from tools.data.generated_text import GeneratedText, word_places
from tools.data.made_up_words import WORD, made_up_words
from tools.data.records import DataError

FREQUENT = 3
STEEPEST = 5.0


@dataclass(frozen=True)
class FrequentWords:
    """How the words are spread.

    Attributes:
        exponent: of Zipf's law; the smaller, the closer the numbers of the words.
    """

    exponent: float = 2.0
    name: ClassVar[str] = "frequent_words"
    to_shorten: ClassVar[str] = "choose an --exponent near 2"

    def __post_init__(self) -> None:
        if not 1 < self.exponent <= STEEPEST:
            raise DataError(f"exponent is {self.exponent}: write a number above 1 and at most {STEEPEST:g}")

    @property
    def least(self) -> int:
        """From this n on, the third word and the fourth differ by 1 before rounding, and the first ones by more."""
        return ceil(1 / (FREQUENT**-self.exponent - (FREQUENT + 1) ** -self.exponent))

    def make(self, parts: int, rng: random.Random) -> GeneratedText:
        """A text in which the most frequent word occurs that often."""
        numbers = list(takewhile(bool, (int(parts / rank**self.exponent) for rank in count(1))))
        words = made_up_words(len(numbers), WORD, rng)
        text = [word for word, number in zip(words, numbers, strict=True) for _ in range(number)]
        rng.shuffle(text)
        question = (
            f"Which {FREQUENT} words occur most often in the text? Name them from the most frequent one on, separated by "
            "semicolons."
        )
        return GeneratedText(" ".join(text), question, words[:FREQUENT])

    def places(self, text: str, answer: str) -> list[int]:
        """Where the word stands, each time."""
        return word_places(text, answer)
