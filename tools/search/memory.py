"""How much memory an index needs, against what is free."""

from __future__ import annotations

from pathlib import Path

import psutil

from tools.search.manifest import IndexFolderError
from tools.search.records import is_packed

# Measured on 80k Wikipedia passages (37 MB): building postings holds 10 bytes per byte of text, a vocabulary read from
# JSON 8 bytes per byte of its file.
BYTES_PER_CORPUS_BYTE = 10
BYTES_PER_VOCABULARY_BYTE = 8
BYTES_PER_PACKED_BYTE = 3  # of text


def postings_build_bytes(corpus: Path) -> int:
    """About what building the BM25 postings of a corpus file holds at once."""
    text = corpus.stat().st_size * (BYTES_PER_PACKED_BYTE if is_packed(corpus) else 1)
    return text * BYTES_PER_CORPUS_BYTE


def serving_bytes(folder: Path, workers: int) -> int:
    """About what the workers of a server hold of an index: shared maps once, the rest each."""
    shared = sum(path.stat().st_size for path in folder.rglob("*.npy"))
    shared += sum(path.stat().st_size for path in folder.rglob("*.faiss"))
    own = sum(path.stat().st_size for path in folder.rglob("vocab*.json")) * BYTES_PER_VOCABULARY_BYTE
    return shared + workers * own


def check_free(needed: int, what: str) -> None:
    """Raises IndexFolderError if less than `needed` bytes of memory are free."""
    free = psutil.virtual_memory().available
    if needed > free:
        raise IndexFolderError(
            f"{what} needs about {needed / 2**30:.1f} GiB of memory, {free / 2**30:.1f} GiB are free: use a larger "
            "machine, fewer workers, or a smaller corpus"
        )
