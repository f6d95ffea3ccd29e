"""Questions with answers and nothing else: NQ, TriviaQA, PopQA, Bamboogle and whatever has their shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.data.question import MalformedRecord, Question, question_id, string, unwrapped, usable_answers

ANSWER_FIELDS = (
    "answers",
    "golden_answers",
    "target",
    "answer",
    "possible_answers",
)  # the first present counts


def parse_plain(record: Mapping[str, Any]) -> Question:
    """One record: `question`, answers in one of `ANSWER_FIELDS`, and perhaps an id (`tools.data.question.question_id`).

    Answers are a string, a list of aliases, an object with `value` and `aliases` (TriviaQA), or a JSON list as a string
    (PopQA's `possible_answers`). No passages come
    along, and the number of hops is unknown (0).

    Raises:
        MalformedRecord: a field is missing or has the wrong shape.
    """
    text = string(record, "question")
    field = next((name for name in ANSWER_FIELDS if record.get(name) is not None), None)
    if field is None:
        raise MalformedRecord("answers", f"is missing; known are {', '.join(ANSWER_FIELDS)}")
    return Question(
        question_id(record, text), text, usable_answers(_texts(record[field], field), field), [], [], 0, ""
    )


def _texts(value: Any, field: str) -> list[str]:
    if isinstance(value, str) and field == "possible_answers":
        value = unwrapped(value, field)
    if isinstance(value, Mapping):
        value = [value.get("value"), *(value.get("aliases") or [])]
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(item, str) for item in texts):
        raise MalformedRecord(field, "a string or a list of strings is expected")
    return texts
