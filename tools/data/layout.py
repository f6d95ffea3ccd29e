"""Where records keep their paragraphs and which of them are gold, in every layout that the data sets come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.data.question import MalformedRecord, Paragraph, items, squeeze, unwrapped


def read_paragraphs(record: Mapping[str, Any]) -> list[tuple[Paragraph, bool]]:
    """All paragraphs of a record, with the gold flag where the layout has one (False elsewhere).

    Layouts: `context: [[title, [sentence, …]], …]` (official HotpotQA and 2WikiMultihopQA), `context: {title: […],
    sentences: [[…], …]}` (the same on the Hugging Face hub), and `paragraphs: [{title, text or paragraph_text, is_gold
    or is_supporting}, …]` (MuSiQue and others). Each may be JSON text (2WikiMultihopQA's mirror on the hub).

    Raises:
        MalformedRecord: none of them, or a paragraph of the wrong shape.
    """
    if "paragraphs" in record:
        return [_flagged(item, position) for position, item in enumerate(items(record, "paragraphs"))]
    context = unwrapped(record.get("context"), "context")
    if isinstance(context, dict):
        titles, bodies = items(context, "title"), items(context, "sentences")
        if len(titles) != len(bodies):
            raise MalformedRecord("context", f"{len(titles)} titles but {len(bodies)} lists of sentences")
        context = [list(pair) for pair in zip(titles, bodies, strict=True)]
    if context is None:
        raise MalformedRecord("context", "is missing")
    if not isinstance(context, list):
        raise MalformedRecord("context", f"a list is expected, got {type(context).__name__}")
    return [(_sentences(item, f"context[{position}]"), False) for position, item in enumerate(context)]


def read_gold_titles(record: Mapping[str, Any]) -> list[str]:
    """Titles in `supporting_facts`, each once, in the record's order. Raises MalformedRecord."""
    facts = unwrapped(record.get("supporting_facts"), "supporting_facts")
    if isinstance(facts, dict):
        titles = items(facts, "title")
    else:
        titles = []
        for position, fact in enumerate(items(record, "supporting_facts")):
            if not isinstance(fact, list) or not fact:
                raise MalformedRecord("supporting_facts", f"item {position} is not [title, sentence]")
            titles.append(fact[0])
    if not titles or not all(isinstance(title, str) for title in titles):
        raise MalformedRecord("supporting_facts", "at least one title is expected, all of them strings")
    return list(dict.fromkeys(squeeze(title) for title in titles))


def find_gold(paragraphs: list[Paragraph], titles: list[str]) -> list[Paragraph]:
    """The first paragraph of each title. Raises MalformedRecord if a title is not among them."""
    by_title: dict[str, Paragraph] = {}
    for paragraph in paragraphs:
        by_title.setdefault(paragraph.title, paragraph)
    missing = [title for title in titles if title not in by_title]
    if missing:
        raise MalformedRecord("supporting_facts", f"no paragraph is titled {missing[0]!r}")
    gold = [by_title[title] for title in titles]
    blank = [page.title for page in gold if not page.text]
    if blank:
        raise MalformedRecord("supporting_facts", f"the paragraph {blank[0]!r} has no text")
    return gold


def _flagged(item: Any, position: int) -> tuple[Paragraph, bool]:
    place = f"paragraphs[{position}]"
    if not isinstance(item, dict):
        raise MalformedRecord("paragraphs", f"{place} is not an object")
    text = item.get("paragraph_text", item.get("text"))
    flag = item.get("is_supporting", item.get("is_gold", False))
    if not isinstance(flag, bool):
        raise MalformedRecord("paragraphs", f"{place}: the gold flag is not true or false")
    return _paragraph(item.get("title"), text, place), flag


def _sentences(item: Any, place: str) -> Paragraph:
    if not isinstance(item, list) or len(item) != 2 or not isinstance(item[1], list):
        raise MalformedRecord("context", f"{place} is not [title, [sentence, …]]")
    title, sentences = item
    if not all(isinstance(sentence, str) for sentence in sentences):
        raise MalformedRecord("context", f"{place}: a sentence is not a string")
    return _paragraph(title, " ".join(sentences), place)


def _paragraph(title: Any, text: Any, place: str) -> Paragraph:
    field = place.partition("[")[0]
    if not isinstance(title, str) or not title.strip():
        raise MalformedRecord(field, f"{place} has no title")
    if not isinstance(text, str):
        raise MalformedRecord(field, f"{place}: the text is not a string")
    return Paragraph(squeeze(title), squeeze(text))
