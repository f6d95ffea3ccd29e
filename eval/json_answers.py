"""Answers as other systems write them into JSON: texts, numbers, booleans, nothing. Each treatment is counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mempo.answers import normalize

# What a boolean says; data sets write either word for it.
_WORDS = {True: ("yes", "true"), False: ("no", "false")}


@dataclass
class Treated:
    """What stood where a text is meant, by number of values.

    Attributes:
        numbers: taken as their digits; a whole one without decimals, for `42.0` is what a table makes of 42.
        booleans: taken as yes or no, with true or false as a second wording.
        blank_aliases: blank, null or not a number (NaN), left out.
        without_gold: records in which a question is left without any gold answer: they stay in the denominator, as wrong.
    """

    numbers: int = 0
    booleans: int = 0
    blank_aliases: int = 0
    without_gold: int = 0

    def __add__(self, other: Treated) -> Treated:
        return Treated(*(a + b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)))


def gold_answers(value: Any, treated: Treated) -> list[list[str]]:
    """One list of aliases per question; empty where nothing of it is left.

    Args:
        value: an answer, a list of aliases, or a list of lists of aliases; an answer is a text, a number, a boolean, or
            null for none.
        treated: counts what was no text.

    Raises:
        ValueError: anything else.
    """
    single = not isinstance(value, list)
    lists = [[value]] if single else value if any(isinstance(item, list) for item in value) else [value]
    if not all(isinstance(aliases, list) for aliases in lists):
        raise ValueError("a list of aliases and a list of lists are mixed")
    answers = [[text for item in aliases for text in _texts(item, treated)] for aliases in lists]
    treated.without_gold = int(not all(answers))
    return answers


def predicted_answer(value: Any, answers: Sequence[Sequence[str]], treated: Treated) -> str | None:
    """A prediction as a text; None where there is none.

    Args:
        answers: gold; a boolean is put into the word, yes or true, that stands there.
        treated: counts what was no text.

    Raises:
        ValueError: a list or an object.
    """
    if value is None or _is_nan(value):
        return None
    if isinstance(value, bool):
        treated.booleans += 1
        known = {normalize(alias) for aliases in answers for alias in aliases}
        return next((word for word in _WORDS[value] if word in known), _WORDS[value][0])
    if isinstance(value, int | float):
        treated.numbers += 1
        return _digits(value)
    if not isinstance(value, str):
        raise ValueError(f"a text, a number, a boolean or null is expected, got {type(value).__name__}")
    return value


def _texts(value: Any, treated: Treated) -> list[str]:
    """The wordings of one alias."""
    if isinstance(value, bool):
        treated.booleans += 1
        return list(_WORDS[value])
    if value is None or _is_nan(value) or (isinstance(value, str) and not value.strip()):
        treated.blank_aliases += 1
        return []
    if isinstance(value, int | float):
        treated.numbers += 1
        return [_digits(value)]
    if not isinstance(value, str):
        raise ValueError(
            "an answer, a list of aliases or a list of lists of aliases is expected (texts, numbers or booleans), got "
            f"{type(value).__name__}"
        )
    return [value]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _digits(value: float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
