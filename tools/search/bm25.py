"""BM25 from an index on disk, with exact titles ranked first."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import bm25s
import numba
import numpy as np
import numpy.typing as npt
from bm25s.tokenization import Tokenized

from tools.search.analyzer import Analyzer, words
from tools.search.document import Document
from tools.search.ranking import EMPTY, Ranking
from tools.search.titles import TitleIndex

# bm25s sets its logger to DEBUG, which floods any program with a root handler (verl and its workers have one).
logging.getLogger("bm25s").setLevel(logging.WARNING)

TITLE_WEIGHT = 2  # how often a title's words count in its document
TITLE_BONUS = 0.5  # score per unit of idf for a title that stands in the query word for word

Scores = npt.NDArray[np.float32]


class BM25Ranker:
    """Ranked search; any number of threads may search.

    Ranking is BM25 (Lucene's variant, k1 1.5, b 0.75) over title and text, with two rules for titles, because a query
    that names a page asks for that page:
    - a title that stands in the query word for word adds `TITLE_BONUS` times the idf of its words, without regard to a
      qualifier in brackets such as `(film)`;
    - a document whose whole title is the query comes before every other one.
    Equal scores keep corpus order. Documents that share no term with the query are no results.

    Args:
        folder: what `build` wrote; the postings stay on disk, mapped into memory and shared between processes.
        titles: of the same documents.
    """

    def __init__(self, folder: Path, titles: TitleIndex) -> None:
        self._titles = titles
        self._analyze = Analyzer()
        self._documents = int(np.load(folder / "count.npy"))
        self._terms: dict[str, int] = {}
        if (folder / "postings").is_dir():
            index = bm25s.BM25.load(folder / "postings", mmap=True)
            self._terms = index.vocab_dict
            self._data, self._places, self._starts = (
                np.asarray(index.scores[name]) for name in ("data", "indices", "indptr")
            )
            frequency = np.diff(self._starts)
            self._idf = np.log1p((self._documents - frequency + 0.5) / (frequency + 0.5))

    @staticmethod
    def build(
        documents: Iterable[Document], folder: Path, progress: Callable[[int], None] = lambda done: None
    ) -> None:
        """Indexes the documents.

        Args:
            folder: an empty folder to write to.
            progress: called with the number of documents read, now and then.
        """
        terms: dict[str, int] = {}
        known: dict[str, int] = {}  # word → term: stemming each word once is most of the speed
        analyze = Analyzer()
        corpus: list[npt.NDArray[np.int32]] = []
        for document in documents:
            found = array("i")
            for word in words(document.title) * TITLE_WEIGHT + words(document.text):
                term = known.get(word)
                if term is None:
                    (stem,) = analyze.stems([word])
                    term = known[word] = terms.setdefault(stem, len(terms))
                found.append(term)
            corpus.append(np.array(found, dtype=np.int32))
            if len(corpus) % 1000 == 0:
                progress(len(corpus))
        progress(len(corpus))
        np.save(folder / "count.npy", len(corpus))
        if terms:  # bm25s cannot index a corpus without a single word; no query has known words then
            index = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
            index.index(Tokenized(corpus, terms), create_empty_token=False, show_progress=False)
            index.save(folder / "postings", show_progress=False)

    def __len__(self) -> int:
        return self._documents

    def rank(self, queries: Sequence[str], topk: int) -> list[Ranking]:
        """See `tools.search.ranking.Ranker`."""
        if topk < 1:
            raise ValueError(f"topk is {topk}, it must be at least 1")
        return [self._rank(query, topk) for query in queries]

    def _rank(self, query: str, topk: int) -> Ranking:
        query_words = words(query)
        stems = self._analyze.stems(query_words)
        terms = np.array([self._terms[stem] for stem in stems if stem in self._terms], dtype=np.int64)
        exact = self._titles.titled(query_words)
        if not len(terms) and not len(exact):
            return EMPTY
        scores = np.zeros(self._documents, dtype=np.float32)
        if len(terms):
            add_postings(scores, terms, self._starts, self._places, self._data)
        for (start, end), named in self._titles.named(query_words):
            idf = sum(self._idf[self._terms[stem]] for stem in stems[start:end] if stem in self._terms)
            scores[named] += np.float32(TITLE_BONUS * idf)
        if len(exact):
            scores[exact] += max(float(scores.max()), 1.0)
        return Ranking(*best(scores, min(topk, len(scores))))


@numba.njit(nogil=True, cache=True)
def add_postings(
    scores: Scores,
    terms: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    places: npt.NDArray[np.int32],
    data: Scores,
) -> None:
    """Adds the scores of each term's documents; a term that stands twice in the query counts twice."""
    for term in terms:
        for entry in range(starts[term], starts[term + 1]):
            scores[places[entry]] += data[entry]


@numba.njit(nogil=True, cache=True)
def best(scores: Scores, topk: int) -> tuple[npt.NDArray[np.int64], Scores]:
    """Positions and values of the `topk` largest positive scores, falling; ties in corpus order."""
    positions = np.empty(topk, np.int64)
    values = np.empty(topk, np.float32)
    size = 0
    for position in range(len(scores)):
        score = scores[position]
        if score <= 0 or (size == topk and score <= values[size - 1]):
            continue
        place = min(size, topk - 1)
        while place > 0 and values[place - 1] < score:
            values[place] = values[place - 1]
            positions[place] = positions[place - 1]
            place -= 1
        values[place] = score
        positions[place] = position
        size = min(size + 1, topk)
    return positions[:size], values[:size]
