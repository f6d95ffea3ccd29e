"""Needle tasks in the manner of RULER (arXiv 2404.06654): numbers hidden in a text of no interest, to test other skills.

`single`: one needle. `multi_key`: needles with other keys beside the one that is asked for. `multi_value`: one key with
several numbers, asked for in the order of the text, so that every answer has its place.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from mempo.task import Reference, Task
from tools.data.records import DataError
from tools.data.schema import QuestionRow

KINDS = ("single", "multi_key", "multi_value")
NOISE = (
    "The grass is green.",
    "The sky is blue.",
    "The sun is yellow.",
    "Here we go.",
    "There and back again.",
)
_WORDS = (
    "amber anchor basil beacon birch bridge candle canyon cedar cobalt copper coral desert ember falcon fern garnet "
    "glacier harbor hazel heron indigo island ivory jasper lantern linden maple marble meadow nectar ocean olive orchard "
    "otter pebble pine quartz raven reef river saffron sparrow spruce thistle topaz tundra velvet walnut willow"
)
KEYS = _WORDS.split()


@dataclass(frozen=True)
class NeedleSettings:
    """What to hide.

    Attributes:
        kind: of `KINDS`.
        characters: about the length of the text.
        needles: how many; one of them is asked for (`multi_key`), or all (`multi_value`).
    """

    kind: str
    characters: int
    needles: int = 4

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(f"needle kind {self.kind!r} is unknown; known are {', '.join(KINDS)}")
        if not 1 <= self.needles <= len(KEYS):
            raise DataError(f"needles is {self.needles}: write a number from 1 to {len(KEYS)}")
        if self.characters < 100 * self.needles:
            raise DataError(f"{self.characters} characters are too few for {self.needles} needles")


def needle_rows(settings: NeedleSettings, count: int, seed: int) -> Iterator[QuestionRow]:
    """`count` questions, each with a text and numbers of its own; the same seed gives the same rows."""
    for index in range(count):
        yield _row(settings, index, random.Random(f"{seed} {settings.kind} {index}"))


def _row(settings: NeedleSettings, index: int, rng: random.Random) -> QuestionRow:
    amount = 1 if settings.kind == "single" else settings.needles
    keys = rng.sample(KEYS, amount) if settings.kind != "multi_value" else [rng.choice(KEYS)] * amount
    values = [str(value) for value in rng.sample(range(1_000_000, 10_000_000), amount)]
    sentences = [NOISE[place % len(NOISE)] for place in range(_sentences(settings.characters))]
    places = sorted(rng.sample(range(len(sentences) + 1), amount))
    for place, key, value in sorted(zip(places, keys, values, strict=True), reverse=True):
        sentences.insert(place, f"One of the special magic numbers for {key} is: {value}.")
    if settings.kind == "multi_value":
        question = (
            f"What are the {amount} special magic numbers for {keys[0]} in the text? Give them in the order of the text, "
            "separated by semicolons."
        )
        answers = [[value] for value in values]
    else:
        asked = rng.randrange(amount)
        question = f"What is the special magic number for {keys[asked]} in the text?"
        answers = [[values[asked]]]
    task = Task(f"needle-{settings.kind}-{index}", question, len(answers), document=" ".join(sentences))
    return QuestionRow(
        task, Reference(answers), f"needle_{settings.kind}", "validation", index, type=settings.kind
    )


def _sentences(characters: int) -> int:
    whole = sum(len(sentence) + 1 for sentence in NOISE)
    return max(1, characters * len(NOISE) // whole)
