"""Words that no language has, so that nothing but the text says how often they occur or what they stand for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod

from tools.data.records import DataError

_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"
# The letters that may stand at each place. A word can be spoken, and is no article, which scoring would drop.
WORD = [*[_CONSONANTS, _VOWELS] * 3, _CONSONANTS]
# Five capitals without a vowel: never a word.
VARIABLE = ["BCDFGHJKLMNPQRSTVWXZ"] * 5


def made_up_words(count: int, shape: Sequence[str], rng: random.Random) -> list[str]:
    """Distinct words in the order in which they are drawn; more of them begin with the same ones.

    Args:
        shape: the letters that may stand at each place of a word.

    Raises:
        DataError: the shape has fewer words.
    """
    words = prod(len(letters) for letters in shape)
    if count > words:
        raise DataError(f"{count} different words are needed and there are {words}: ask for shorter texts")
    numbers: dict[int, None] = {}
    while len(numbers) < count:
        numbers[rng.randrange(words)] = None
    return [_spelled(number, shape) for number in numbers]


def _spelled(number: int, shape: Sequence[str]) -> str:
    letters = []
    for choice in shape:
        number, letter = divmod(number, len(choice))
        letters.append(choice[letter])
    return "".join(letters)
