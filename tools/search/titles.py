"""Titles by their words, and addresses, in sorted arrays on disk: which documents a query or a reader names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tools.search.analyzer import without_qualifier, words
from tools.search.document import Document

LONGEST_TITLE = 16  # words; longer titles are found by their terms alone
KINDS = ("names", "whole", "addresses")
_FACTOR = 0x9E3779B97F4A7C15  # odd: multiplication by it loses nothing

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]


class TitleIndex:
    """Documents by title, with and without a qualifier such as `(film)`.

    Titles are compared by a 64-bit hash of their words: two of a hundred million different ones collide with a
    probability of 0.03 %.
    """

    def __init__(self, folder: Path) -> None:
        self._names, self._whole, self._addresses = (_Table(folder / f"titles.{kind}") for kind in KINDS)

    @staticmethod
    def build(documents: Iterable[Document], folder: Path) -> None:
        """Writes the tables of all documents, in corpus order."""
        names: list[tuple[np.uint64, int]] = []
        whole: list[tuple[np.uint64, int]] = []
        addresses: list[tuple[np.uint64, int]] = []
        for position, document in enumerate(documents):
            every = words(document.title)
            name = words(without_qualifier(document.title)) or every
            if every:
                whole.append((title_hash(every), position))
            if 0 < len(name) <= LONGEST_TITLE:
                names.append((title_hash(name), position))
            addresses.append((np.uint64(_hash(document.address)), position))
        for kind, entries in zip(KINDS, (names, whole, addresses), strict=True):
            _Table.write(entries, folder / f"titles.{kind}")

    def titled(self, title_words: Sequence[str]) -> Positions:
        """Documents whose whole title is these words, in corpus order."""
        return self._whole.find(title_hash(title_words)) if title_words else np.empty(0, np.int64)

    def at(self, address: str) -> Positions:
        """Documents of this `Document.address`, in corpus order."""
        return self._addresses.find(np.uint64(_hash(address)))

    def named(self, query_words: Sequence[str]) -> list[tuple[tuple[int, int], Positions]]:
        """Each title that stands in the query word for word, once: the span of its words, and its documents."""
        hashes = _word_hashes(query_words)
        lengths = range(1, min(len(hashes), LONGEST_TITLE) + 1)
        spans = [np.zeros(len(hashes) + 1, np.uint64)]
        for length in lengths:
            spans.append(_extend(spans[-1][: len(hashes) - length + 1], hashes[length - 1 :]))
        every = np.concatenate(spans[1:]) if lengths else spans[0][:0]
        # The span of each hash, in the same order: all of one word, then all of two ...
        starts = [(start, start + length) for length in lengths for start in range(len(hashes) - length + 1)]
        known = {int(every[place]): place for place in reversed(self._names.known(every))}
        return [(starts[place], self._names.find(every[place])) for place in sorted(known.values())]


class _Table:
    """Sorted hashes with the position that each stands for; equal ones in corpus order."""

    def __init__(self, stem: Path) -> None:
        # As plain arrays over the maps: numpy's class for maps is slow to slice.
        self._hashes: Hashes = np.asarray(np.load(f"{stem}.hashes.npy", mmap_mode="r"))
        self._positions: Positions = np.asarray(np.load(f"{stem}.positions.npy", mmap_mode="r"))

    @staticmethod
    def write(entries: Sequence[tuple[np.uint64, int]], stem: Path) -> None:
        hashes = np.array([value for value, _ in entries], dtype=np.uint64)
        order = np.argsort(hashes, kind="stable")
        np.save(f"{stem}.hashes.npy", hashes[order])
        np.save(f"{stem}.positions.npy", np.array([place for _, place in entries], dtype=np.int64)[order])

    def known(self, hashes: Hashes) -> list[int]:
        """Indices of the hashes that the table holds."""
        if not len(self._hashes):
            return []
        places = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        return [int(index) for index in np.flatnonzero(self._hashes[places] == hashes)]

    def find(self, value: np.uint64) -> Positions:
        start, end = (
            np.searchsorted(self._hashes, value, "left"),
            np.searchsorted(self._hashes, value, "right"),
        )
        return np.asarray(self._positions[start:end])


def title_hash(title_words: Sequence[str]) -> np.uint64:
    """Hash of a sequence of words, the same in every process."""
    value = 0
    for word in title_words:
        value = (value * _FACTOR % 2**64) ^ _word_hash(word)
    return np.uint64(value)


def _extend(spans: Hashes, following: Hashes) -> Hashes:
    """Hashes of spans that are each one word longer."""
    return (spans * np.uint64(_FACTOR)) ^ following[: len(spans)]


def _word_hashes(of: Sequence[str]) -> Hashes:
    return np.array([_word_hash(word) for word in of], dtype=np.uint64)


@lru_cache(maxsize=1 << 16)
def _word_hash(word: str) -> int:
    return _hash(word)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
