"""Questions with answers and nothing else: NQ, TriviaQA, PopQA, Bamboogle and whatever has their shape."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from mempo.outside_text import load_json
from tools.data.question import MalformedRecord, Question, string, usable_answers

ANSWER_FIELDS = (
    "answers",
    "golden_answers",
    "target",
    "answer",
    "possible_answers",
)  # the first present counts
ID_FIELDS = ("id", "_id", "question_id")


def parse_plain(record: Mapping[str, Any]) -> Question:
    """One record: `question`, answers in one of `ANSWER_FIELDS`, an id in one of `ID_FIELDS` or none.

    Answers are a string, a list of aliases, an object with `value` and `aliases` (TriviaQA), or a JSON list as a string
    (PopQA's `possible_answers`). Without an id, the question's hash is one, the same in every file. No passages come
    along, and the number of hops is unknown (0).

    Raises:
        MalformedRecord: a field is missing or has the wrong shape.
    """
    text = string(record, "question")
    field = next((name for name in ANSWER_FIELDS if record.get(name) is not None), None)
    if field is None:
        raise MalformedRecord("answers", f"is missing; known are {', '.join(ANSWER_FIELDS)}")
    return Question(
        _id(record, text), text, usable_answers(_texts(record[field], field), field), [], [], 0, ""
    )


def _id(record: Mapping[str, Any], text: str) -> str:
    field = next((name for name in ID_FIELDS if record.get(name) is not None), None)
    if field is None:
        return hashlib.sha256(text.encode()).hexdigest()[:16]
    value = record[field]
    return str(value) if type(value) is int else string(record, field)


def _texts(value: Any, field: str) -> list[str]:
    if isinstance(value, str) and field == "possible_answers":
        try:
            value = load_json(value)
        except ValueError as error:
            raise MalformedRecord(field, f"is not a JSON list: {error}") from error
    if isinstance(value, Mapping):
        value = [value.get("value"), *(value.get("aliases") or [])]
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(item, str) for item in texts):
        raise MalformedRecord(field, "a string or a list of strings is expected")
    return texts
