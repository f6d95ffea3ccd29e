"""MuSiQue (Trivedi et al. 2022): 2 to 4 hops with a decomposition; the `full` variant has unanswerable questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.data.layout import read_paragraphs
from tools.data.question import (
    MalformedRecord,
    Paragraph,
    Question,
    Unusable,
    aliases,
    items,
    question_id,
    string,
)


def parse_musique(record: Mapping[str, Any]) -> Question:
    """One record; the decomposition gives the hop order, and the id's first part (e.g. `3hop1`) the type.

    Raises:
        MalformedRecord: a field is missing or has the wrong shape.
        Unusable: the record is marked as unanswerable.
    """
    text = string(record, "question")
    name = question_id(record, text)
    if record.get("answerable", True) is not True:
        raise Unusable("unanswerable")
    answers = aliases(record, [])
    flagged = read_paragraphs(record)
    paragraphs = [paragraph for paragraph, _ in flagged]
    if record.get("question_decomposition"):
        steps = items(record, "question_decomposition")
        gold = [_support(step, position, record, paragraphs) for position, step in enumerate(steps)]
        hops = len(steps)
    else:
        gold = [paragraph for paragraph, is_gold in flagged if is_gold]
        hops = len(gold)
    gold = list(dict.fromkeys(gold))
    if not gold:
        raise MalformedRecord("paragraphs", "none is marked as supporting")
    if not all(page.text for page in gold):
        raise MalformedRecord("paragraphs", "a supporting one has no text")
    return Question(name, text, answers, paragraphs, gold, hops, _kind(name))


def _kind(name: str) -> str:
    """`3hop1` of `3hop1__1_2_3`; "" for an id of another form."""
    kind, mark, _ = name.partition("__")
    return kind if mark else ""


def _support(step: Any, position: int, record: Mapping[str, Any], paragraphs: list[Paragraph]) -> Paragraph:
    """The paragraph of one step: `paragraph_support_idx` refers to the `idx` of a paragraph, else to its position."""
    wanted = step.get("paragraph_support_idx") if isinstance(step, dict) else None
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise MalformedRecord("question_decomposition", f"step {position} names no paragraph")
    for place, item in enumerate(items(record, "paragraphs")):
        if item.get("idx", place) == wanted:
            return paragraphs[place]
    raise MalformedRecord(
        "question_decomposition", f"step {position} names paragraph {wanted}, which is not there"
    )
