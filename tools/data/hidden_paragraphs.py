"""The gold paragraphs of a question hidden among distractors: one long document."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tools.data.passages import passage_id
from tools.data.question import Paragraph, Question
from tools.data.records import DataError
from tools.data.token_counter import CountTokens


@dataclass(frozen=True)
class LongDocument:
    """A document and where its gold paragraphs stand (from 1), in hop order."""

    text: str
    places: list[int]
    paragraphs: int


def document_text(paragraphs: Iterable[Paragraph]) -> str:
    """Paragraphs as RULER and MemAgent lay them out: `Document 1:`, title, text, and a blank line between."""
    return "\n\n".join(
        f"Document {number}:\n{page.title}\n{page.text}" for number, page in enumerate(paragraphs, 1)
    )


class Distractors:
    """Distinct paragraphs to hide others among."""

    def __init__(self, paragraphs: Iterable[Paragraph]) -> None:
        self._pages = list({passage_id(page): page for page in paragraphs if page.text}.values())

    def __len__(self) -> int:
        return len(self._pages)

    def around(self, question: Question, rng: random.Random) -> Iterator[Paragraph]:
        """Paragraphs that are not gold, by title: first those that came with the question, then others as drawn."""
        gold = {page.title for page in question.gold}
        own = {passage_id(page): page for page in question.paragraphs if page.text and page.title not in gold}
        yield from own.values()
        for page in rng.sample(self._pages, len(self._pages)):
            if page.title not in gold and passage_id(page) not in own:
                yield page


def gold_of(question: Question) -> list[Paragraph]:
    """The gold paragraphs, each once."""
    return list({passage_id(page): page for page in question.gold}.values())


def hide(
    question: Question,
    distractors: Distractors,
    rng: random.Random,
    *,
    documents: int | None = None,
    tokens: int | None = None,
    count: CountTokens = len,
) -> LongDocument:
    """The gold paragraphs, each once, among distractors up to a number of paragraphs or of tokens.

    Raises:
        DataError: the gold paragraphs alone are more, or there are too few distractors.
    """
    gold = gold_of(question)
    others = distractors.around(question, rng)
    chosen: list[Paragraph] = []
    if documents is not None:
        chosen = [page for _, page in zip(range(documents - len(gold)), others, strict=False)]
        if len(gold) + len(chosen) != documents:
            raise DataError(
                f"question {question.id!r}: {len(gold)} gold and {len(chosen)} distractor paragraphs, and {documents} "
                "are asked for: give more --input or --corpus files"
            )
        return _placed(gold, chosen, rng)
    assert tokens is not None
    size = count(document_text(gold))
    if size > tokens:
        raise DataError(
            f"question {question.id!r}: its gold paragraphs have {size} tokens, --tokens is {tokens}"
        )
    for page in others:
        size += count(f"Document {len(gold) + len(chosen) + 1}:\n{page.title}\n{page.text}\n\n")
        if size > tokens:
            break
        chosen.append(page)
    else:
        raise DataError(f"question {question.id!r}: all paragraphs together are less than {tokens} tokens")
    while True:  # the parts may merge into more tokens than they have alone
        made = _placed(gold, chosen, rng)
        if count(made.text) <= tokens or not chosen:
            return made
        chosen.pop()


def _placed(gold: Sequence[Paragraph], others: Sequence[Paragraph], rng: random.Random) -> LongDocument:
    order = [*gold, *others]
    rng.shuffle(order)
    places = [order.index(page) + 1 for page in gold]
    return LongDocument(document_text(order), places, len(order))
