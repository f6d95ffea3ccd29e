"""An index on disk: documents, their titles, and one or two rankers of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.search.analyzer import words
from tools.search.bm25 import BM25Ranker
from tools.search.document import Document
from tools.search.manifest import IndexFolderError, Manifest
from tools.search.ranking import Ranker
from tools.search.store import DocumentStore, write_documents
from tools.search.titles import TitleIndex


@dataclass(frozen=True)
class Hit:
    """One result: higher scores are better."""

    document: Document
    score: float


class Index:
    """Searches documents and finds them by title or address; any number of threads may."""

    def __init__(self, documents: Sequence[Document], titles: TitleIndex, ranker: Ranker) -> None:
        self.documents, self._titles, self._ranker = documents, titles, ranker

    def __len__(self) -> int:
        return len(self.documents)

    def search(self, query: str, topk: int) -> list[Hit]:
        """The best `topk` documents, best first; fewer if fewer match, none for a blank query."""
        return self.search_all([query], topk)[0]

    def search_all(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """`search` of each query; a dense index encodes them together."""
        return [
            [
                Hit(self.documents[int(place)], float(score))
                for place, score in zip(ranking.positions, ranking.scores, strict=True)
            ]
            for ranking in self._ranker.rank(queries, topk)
        ]

    def page(self, name: str) -> list[Document]:
        """The passages of a page, by address or by whole title, in corpus order; empty if there is none.

        The `address` of a document always gives a page that it is part of. Other names are compared as titles, by their
        words.
        """
        places = self._titles.at(name)
        if not len(places):
            places = self._titles.titled(words(name))
        return [self.documents[int(place)] for place in places]


def open_index(folder: Path, encoder: Path | None = None) -> Index:
    """The index of a folder that `mempo search build` wrote.

    Args:
        encoder: of a dense or hybrid index.

    Raises:
        IndexFolderError: the folder is no complete index, or the encoder is missing or another one.
    """
    manifest = Manifest.read(folder)
    if encoder is not None and manifest.kind == "bm25":
        raise IndexFolderError(f"{folder} is a bm25 index, it takes no encoder: leave --encoder out")
    titles = TitleIndex(folder / "titles")
    rankers: list[Ranker] = []
    if manifest.kind != "dense":
        rankers.append(BM25Ranker(folder / "bm25", titles))
    if manifest.kind != "bm25":
        rankers.append(_dense(folder, encoder, manifest.kind))
    if len(rankers) == 1:
        return Index(DocumentStore(folder), titles, rankers[0])
    from tools.search.hybrid import HybridRanker

    return Index(DocumentStore(folder), titles, HybridRanker(rankers))


def _dense(folder: Path, encoder: Path | None, kind: str) -> Ranker:
    from tools.search.dense import DenseError, DenseRanker
    from tools.search.encoder import Encoder, EncoderError

    if encoder is None:
        raise IndexFolderError(f"{folder} is a {kind} index: give its encoder (--encoder FOLDER)")
    try:
        return DenseRanker.load(folder / "dense", Encoder(encoder))
    except (DenseError, EncoderError) as error:
        raise IndexFolderError(str(error)) from error


def bm25_index(documents: Sequence[Document]) -> Index:
    """An index of a corpus that fits in memory; nothing of it stays on disk.

    Raises:
        ValueError: without documents.
    """
    if not documents:
        raise ValueError("an index needs at least one document")
    with tempfile.TemporaryDirectory(prefix="mempo-index-") as name:
        folder = Path(name)
        write_documents(documents, folder)
        TitleIndex.build(documents, folder)
        BM25Ranker.build(documents, folder)
        titles = TitleIndex(folder)
        # The files go with the folder; their memory maps live as long as the index.
        return Index(DocumentStore(folder), titles, BM25Ranker(folder, titles))
