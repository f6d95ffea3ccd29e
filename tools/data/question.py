"""A question of a data set with its paragraphs, and checked access to the fields of a raw record."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mempo.answers import normalize
from mempo.outside_text import load_json

ID_FIELDS = ("_id", "id", "question_id")


class MalformedRecord(ValueError):
    """A record cannot be used. `field` names the culprit, for counting."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"field {field}: {message}")
        self.field = field


class Unusable(Exception):
    """A record that is well formed but asks what this project does not train on. `reason` is for counting."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Paragraph:
    """One passage; both strings have single spaces and no line breaks."""

    title: str
    text: str


@dataclass(frozen=True)
class Question:
    """One question of a data set.

    Attributes:
        answers: accepted aliases, the data set's own answer first.
        paragraphs: all passages that came with the question, distractors included, in the record's order.
        gold: the passages that the answer needs, in the order in which they are needed.
        hops: steps of reasoning.
        type: the data set's name for this kind of question.
        source: name of the data set, where one file holds several; "" elsewhere.
    """

    id: str
    question: str
    answers: list[str]
    paragraphs: list[Paragraph]
    gold: list[Paragraph]
    hops: int
    type: str
    source: str = ""


def squeeze(text: str) -> str:
    """The text on one line with single spaces."""
    return " ".join(text.split())


def string(record: Mapping[str, Any], field: str) -> str:
    """A field that must hold text, on one line. Raises MalformedRecord."""
    if field not in record:
        raise MalformedRecord(field, "is missing")
    value = record[field]
    if not isinstance(value, str):
        raise MalformedRecord(field, f"a string is expected, got {type(value).__name__}")
    if not value.strip():
        raise MalformedRecord(field, "is blank")
    return squeeze(value)


def question_id(record: Mapping[str, Any], text: str) -> str:
    """The id under one of `ID_FIELDS`, a text or a whole number; without one the hash of the question `text`.

    The hash is the same in every file, so that a question is known again. Raises MalformedRecord.
    """
    field = next((name for name in ID_FIELDS if record.get(name) is not None), None)
    if field is None:
        return hashlib.sha256(text.encode()).hexdigest()[:16]
    value = record[field]
    return str(value) if type(value) is int else string(record, field)


def unwrapped(value: Any, field: str) -> Any:
    """The value of a field, read where a mirror stored it as JSON text. Raises MalformedRecord for other text."""
    if not isinstance(value, str):
        return value
    try:
        return load_json(value)
    except ValueError as error:
        raise MalformedRecord(field, f"is a text, but no JSON: {error}") from error


def items(record: Mapping[str, Any], field: str) -> list[Any]:
    """A field that must hold a list, or the JSON text of one. Raises MalformedRecord."""
    if field not in record:
        raise MalformedRecord(field, "is missing")
    value = unwrapped(record[field], field)
    if not isinstance(value, list):
        raise MalformedRecord(field, f"a list is expected, got {type(value).__name__}")
    return value


def aliases(record: Mapping[str, Any], further: list[str]) -> list[str]:
    """The answer, then `answer_aliases` of the record, then `further` ones; each once, blanks left out.

    Raises:
        MalformedRecord: the answer is missing or blank, or nothing of it is left to compare after normalisation.
    """
    given = [string(record, "answer")]
    for alias in items(record, "answer_aliases") if record.get("answer_aliases") is not None else []:
        if not isinstance(alias, str):
            raise MalformedRecord("answer_aliases", f"strings are expected, got {type(alias).__name__}")
        given.append(squeeze(alias))
    return usable_answers([*given, *further], "answer")


def usable_answers(texts: Iterable[str], field: str) -> list[str]:
    """The texts on one line each, every one once, blanks left out.

    Raises:
        MalformedRecord: nothing of them is left to compare after normalisation (an answer of punctuation alone could
            never be scored as right).
    """
    unique = [text for text in dict.fromkeys(map(squeeze, texts)) if text]
    if not unique:
        raise MalformedRecord(field, "holds no answer")
    if not any(normalize(text) for text in unique):
        raise MalformedRecord(field, f"{unique[0]!r} is empty after normalisation and could never be matched")
    return unique
