"""HotpotQA (Yang et al. 2018): two gold paragraphs, `bridge` or `comparison`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mempo.answers import normalize
from tools.data.layout import find_gold, read_gold_titles, read_paragraphs
from tools.data.question import Paragraph, Question, aliases, question_id, string


def parse_hotpotqa(record: Mapping[str, Any]) -> Question:
    """One record of the distractor setting, in any layout of `tools.data.layout`. Raises MalformedRecord."""
    text, answers = string(record, "question"), aliases(record, [])
    name = question_id(record, text)
    flagged = read_paragraphs(record)
    paragraphs = [paragraph for paragraph, _ in flagged]
    gold = [paragraph for paragraph, is_gold in flagged if is_gold]
    if not gold or "supporting_facts" in record:
        gold = find_gold(paragraphs, read_gold_titles(record))
    kind = string(record, "type") if "type" in record else ""
    return Question(name, text, answers, paragraphs, order_by_hop(gold, text, answers, kind), len(gold), kind)


def order_by_hop(gold: list[Paragraph], question: str, answers: list[str], kind: str) -> list[Paragraph]:
    """The gold paragraphs in the order in which a searcher reaches them; the data set does not record it.

    A comparison reads its pages in the order in which the question names them. For a bridge between two pages, the
    first of these rules that tells them apart decides: the answer stands only in the second; the first mentions the
    second's title and not the other way round; the question names the first and not the second.
    """
    if kind == "comparison":
        return sorted(gold, key=lambda page: _place(page, question))
    if len(gold) != 2:
        return gold
    forward, backward = gold, gold[::-1]
    rules = [
        lambda first, last: _mentions(last, answers) and not _mentions(first, answers),
        lambda first, last: _mentions(first, [_name(last)]) and not _mentions(last, [_name(first)]),
        lambda first, last: _place(first, question) < len(question) <= _place(last, question),
    ]
    for rule in rules:
        if rule(*forward) != rule(*backward):
            return forward if rule(*forward) else backward
    return gold


def _name(page: Paragraph) -> str:
    """The title without a qualifier such as `(film)`."""
    return re.sub(r"\s*\([^()]*\)$", "", page.title) or page.title


def _place(page: Paragraph, question: str) -> int:
    """Where the question names the page; its length if it does not."""
    found = question.casefold().find(_name(page).casefold())
    return found if found >= 0 else len(question)


def _mentions(page: Paragraph, texts: list[str]) -> bool:
    body = f" {normalize(page.title)} | {normalize(page.text)} "
    return any(normalize(text) and f" {normalize(text)} " in body for text in texts)
