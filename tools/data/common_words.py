"""Common words in the manner of RULER (arXiv 2404.06654): a numbered list in which ten words occur more often than all others.

The ten are asked for in alphabetical order, so that every answer has its place: they occur equally often, and nothing else
would order them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from tools.data.generated_text import GeneratedText, word_places
from tools.data.made_up_words import WORD, made_up_words
from tools.data.records import DataError

COMMON = 10


@dataclass(frozen=True)
class CommonWords:
    """What to list.

    Attributes:
        repeats: how often each of the ten words occurs.
        other_repeats: how often each other word occurs.
    """

    repeats: int = 30
    other_repeats: int = 3
    name: ClassVar[str] = "common_words"
    to_shorten: ClassVar[str] = "lower --repeats"
    least: ClassVar[int] = COMMON

    def __post_init__(self) -> None:
        if not 1 <= self.other_repeats < self.repeats:
            raise DataError(
                f"the common words occur {self.repeats} times and the others {self.other_repeats} times: --other-repeats "
                "must be at least 1 and below --repeats"
            )

    def make(self, parts: int, rng: random.Random) -> GeneratedText:
        """A list with that many other words."""
        words = made_up_words(COMMON + parts, WORD, rng)
        common, others = words[:COMMON], words[COMMON:]
        listed = common * self.repeats + others * self.other_repeats
        rng.shuffle(listed)
        text = " ".join(f"{number}. {word}" for number, word in enumerate(listed, 1))
        question = f"Which {COMMON} words occur most often in the list? Name them in alphabetical order, separated by semicolons."
        return GeneratedText(text, question, sorted(common))

    def places(self, text: str, answer: str) -> list[int]:
        """Where the word stands, each time."""
        return word_places(text, answer)
