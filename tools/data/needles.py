"""Needle tasks in the manner of RULER (arXiv 2404.06654): numbers hidden in a text of no interest, to test other skills.

`single`: one needle. `multi_key`: needles with other keys beside the one that is asked for. `multi_value`: one key with
several numbers, asked for in the order of the text, so that every answer has its place.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tools.data.generated_text import GeneratedText, word_places
from tools.data.noise import hide_in_noise
from tools.data.records import DataError

KINDS = {"single": 1, "multi_key": 4, "multi_value": 4}  # and how many needles, where no number is given
_WORDS = (
    "amber anchor basil beacon birch bridge candle canyon cedar cobalt copper coral desert ember falcon fern garnet "
    "glacier harbor hazel heron indigo island ivory jasper lantern linden maple marble meadow nectar ocean olive orchard "
    "otter pebble pine quartz raven reef river saffron sparrow spruce thistle topaz tundra velvet walnut willow"
)
KEYS = _WORDS.split()


@dataclass(frozen=True)
class Needles:
    """What to hide.

    Attributes:
        kind: of `KINDS`.
        needles: how many; one of them is asked for (`single`, `multi_key`), or all (`multi_value`).
    """

    kind: str
    needles: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(f"needle kind {self.kind!r} is unknown; known are {', '.join(KINDS)}")
        if self.kind == "single" and self.needles != 1:
            raise DataError(
                f"needles is {self.needles}, and the kind single hides one: leave --needles out, or choose another --kind"
            )
        if not 1 <= self.needles <= len(KEYS):
            raise DataError(f"needles is {self.needles}: write a number from 1 to {len(KEYS)}")

    @classmethod
    def of(cls, kind: str, needles: int | None) -> Needles:
        """With the kind's own number of needles where none is given."""
        return cls(kind, KINDS.get(kind, 1) if needles is None else needles)

    @property
    def name(self) -> str:
        return f"needle_{self.kind}"

    @property
    def to_shorten(self) -> str:
        return "" if self.kind == "single" else "lower --needles"

    @property
    def least(self) -> int:
        """As many sentences of noise as there are needles."""
        return self.needles

    def make(self, parts: int, rng: random.Random) -> GeneratedText:
        """A text with that many sentences of noise."""
        amount, together = self.needles, self.kind == "multi_value"
        keys = [rng.choice(KEYS)] * amount if together else rng.sample(KEYS, amount)
        values = [str(value) for value in rng.sample(range(1_000_000, 10_000_000), amount)]
        pairs = list(zip(keys, values, strict=True))
        if together:
            answers = values
            question = (
                f"What are the {amount} special magic numbers for {keys[0]} in the text? Give them in the order of the text, "
                "separated by semicolons."
            )
        else:
            key, value = rng.choice(pairs)
            answers, question = [value], f"What is the special magic number for {key} in the text?"
        hidden = [f"One of the special magic numbers for {key} is: {value}." for key, value in pairs]
        return GeneratedText(hide_in_noise(hidden, parts, rng), question, answers)

    def places(self, text: str, answer: str) -> list[int]:
        """Where the number stands."""
        return word_places(text, answer)
