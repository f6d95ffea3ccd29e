"""BM25 over a corpus in memory, with exact titles ranked first."""

from __future__ import annotations

import logging
import re
import threading
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import bm25s
import numpy as np
import Stemmer

from tools.search.corpus import Document

# bm25s sets its logger to DEBUG, which floods any program with a root handler (verl and its workers have one).
logging.getLogger("bm25s").setLevel(logging.WARNING)

# One token per CJK character (such text has no spaces), otherwise runs of letters and digits.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_POSSESSIVE = re.compile(r"'s\b")
_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")

TITLE_WEIGHT = 2  # how often a title's words count in its document
TITLE_BONUS = 0.5  # score per unit of idf for a title that stands in the query word for word
LONGEST_TITLE = 16  # words; longer titles are found by BM25 alone


@dataclass(frozen=True)
class Hit:
    """One result: higher scores are better, always above 0."""

    document: Document
    score: float


class Analyzer:
    """Text → index terms: accents dropped, case folded, English (Snowball) stems. Safe to call from many threads."""

    def __init__(self) -> None:
        self._local = threading.local()  # a Stemmer keeps state between calls

    def __call__(self, text: str) -> list[str]:
        stemmer = getattr(self._local, "stemmer", None)
        if stemmer is None:
            stemmer = self._local.stemmer = Stemmer.Stemmer("english")
        return stemmer.stemWords(words(text))


def words(text: str) -> list[str]:
    """The words of a text, in order, without accents, possessive 's and case."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
        text = text.replace("\u2019", "'")
    return _WORD.findall(_POSSESSIVE.sub("", text.casefold()))


class BM25Index:
    """Ranked search over documents. Immutable after construction, so any number of threads may search it.

    Ranking is BM25 (Lucene's variant, k1 1.5, b 0.75) over title and text, with two rules for titles, because a query
    that names a page asks for that page:
    - a title that stands in the query word for word adds `TITLE_BONUS` times the idf of its words, without regard to a
      qualifier in brackets such as `(film)`;
    - a document whose whole title is the query comes before every other one.
    Equal scores keep corpus order. Documents that share no term with the query are no results.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        if not documents:
            raise ValueError("an index needs at least one document")
        self.documents = list(documents)
        self._analyze = Analyzer()
        self._titles: dict[tuple[str, ...], list[int]] = defaultdict(list)
        self._exact: dict[tuple[str, ...], list[int]] = defaultdict(list)
        frequency: dict[str, int] = defaultdict(int)
        corpus = []
        for position, document in enumerate(self.documents):
            terms = self._analyze(document.title) * TITLE_WEIGHT + self._analyze(document.text)
            for term in set(terms):
                frequency[term] += 1
            corpus.append(terms)
            title = words(document.title)
            name = words(_QUALIFIER.sub("", document.title)) or title
            if title:
                self._exact[tuple(title)].append(position)
            if 0 < len(name) <= LONGEST_TITLE:
                self._titles[tuple(name)].append(position)
        count = len(self.documents)
        self._idf = {term: float(np.log1p((count - n + 0.5) / (n + 0.5))) for term, n in frequency.items()}
        self._bm25 = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
        if frequency:  # bm25s cannot index a corpus without a single word; no query has known words then
            self._bm25.index(corpus, show_progress=False)

    def __len__(self) -> int:
        return len(self.documents)

    def search(self, query: str, topk: int) -> list[Hit]:
        """The best `topk` documents, best first; fewer if fewer match, none for a query without known words."""
        if topk < 1:
            raise ValueError(f"topk is {topk}, it must be at least 1")
        query_words = words(query)
        terms = [term for term in self._analyze(query) if term in self._idf]
        scores = np.zeros(len(self.documents), dtype=np.float32)
        if terms:
            scores += self._bm25.get_scores(terms)
        for title in self._named(query_words):
            bonus = TITLE_BONUS * sum(self._idf.get(term, 0.0) for term in self._analyze(" ".join(title)))
            scores[self._titles[title]] += bonus
        exact = self._exact.get(tuple(query_words), []) if query_words else []
        if exact:
            scores[exact] += max(float(scores.max()), 1.0)
        return [Hit(self.documents[i], float(scores[i])) for i in _best(scores, topk)]

    def _named(self, query_words: list[str]) -> Iterator[tuple[str, ...]]:
        """Titles that stand in the query, each once."""
        seen = set()
        for start in range(len(query_words)):
            for end in range(start + 1, min(start + LONGEST_TITLE, len(query_words)) + 1):
                span = tuple(query_words[start:end])
                if span in self._titles and span not in seen:
                    seen.add(span)
                    yield span


def _best(scores: np.ndarray, topk: int) -> list[int]:
    """Positions of the `topk` largest positive scores, ties in corpus order."""
    positive = int(np.count_nonzero(scores > 0))
    topk = min(topk, positive)
    if topk == 0:
        return []
    border = np.partition(scores, len(scores) - topk)[len(scores) - topk]
    above = np.flatnonzero(scores > border)
    tied = np.flatnonzero(scores == border)[: topk - len(above)]
    chosen = np.concatenate([above, tied])
    return [int(i) for i in chosen[np.lexsort((chosen, -scores[chosen]))]]
