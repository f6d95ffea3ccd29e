"""Ranking by vectors: an encoder's passages in a faiss index on disk, built shard by shard."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import faiss
import numpy as np
import numpy.typing as npt

from tools.search.document import Document
from tools.search.encoder import Encoder, EncoderError
from tools.search.ranking import EMPTY, Ranking

INDEX = "index.faiss"
RECORD = "dense.json"  # written last: without it the folder holds no index
SHARDS = "vectors"  # only needed to build again, e.g. an index of another kind

_FORMAT = 1
_SAMPLES_PER_CELL = 64  # k-means is content with 39 to 256
_FEWEST_PER_CELL = 39
_SEED = 0

Kind = Literal["flat", "hnsw", "ivf"]
Vectors = npt.NDArray[np.float32]


class DenseError(RuntimeError):
    """A dense index cannot be built or loaded; names the file or the documents, and the remedy."""


@dataclass(frozen=True)
class DenseSettings:
    """How vectors are indexed and searched.

    Attributes:
        kind: `flat` compares with every vector (exact); `hnsw` follows a graph of neighbours; `ivf` looks into the
            cells nearest to the query, of about 4·√n cells.
        hnsw_links: neighbours of a vector in the graph; more find more and take more memory.
        hnsw_breadth: candidates held while the graph is built and searched (topk if that is more).
        ivf_probes: cells that a search looks into.
        shard: documents that are encoded and written at once; what an interrupted build loses at most.
    """

    kind: Kind = "flat"
    hnsw_links: int = 32
    hnsw_breadth: int = 200
    ivf_probes: int = 32
    shard: int = 10_000

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind is {self.kind!r}, it must be one of {', '.join(get_args(Kind))}")
        for name, least in (("hnsw_links", 2), ("hnsw_breadth", 1), ("ivf_probes", 1), ("shard", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be at least {least}")


class DenseRanker:
    """Ranks a corpus by the inner product of query and passage vectors. Any number of threads may call it.

    Equal scores keep corpus order. A blank query finds nothing. Made by `build` or `load`.
    """

    def __init__(self, index: faiss.Index, encoder: Encoder) -> None:
        self._index = index
        self._encoder = encoder

    @classmethod
    def build(
        cls,
        documents: Sequence[Document],
        folder: str | Path,
        encoder: Encoder,
        settings: DenseSettings | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> DenseRanker:
        """Encodes the documents and writes their index into `folder`, or loads it if it is there already.

        An interrupted build goes on with the shards that it finished. A shard is used again only for the same encoder
        and the same documents. Vectors are float32 and stay in memory until the index is written.

        Args:
            progress: called with the documents encoded so far and their total, after each shard.

        Raises:
            DenseError: a document cannot be encoded.
            ValueError: no documents.
        """
        if not documents:
            raise ValueError("an index needs at least one document")
        settings, folder = settings or DenseSettings(), Path(folder)
        record = {
            "format": _FORMAT,
            "encoder": encoder.identity,
            "settings": asdict(settings),
            "documents": len(documents),
            "documents_sha256": documents_sha256(documents),
        }
        if _read_record(folder) == record and (folder / INDEX).exists():
            progress(len(documents), len(documents))
            return cls.load(folder, encoder)
        (folder / SHARDS).mkdir(parents=True, exist_ok=True)
        (folder / RECORD).unlink(missing_ok=True)  # it must not vouch for the index that comes next
        shards = list(_encode_shards(documents, folder / SHARDS, encoder, settings.shard, progress))
        for path in set((folder / SHARDS).glob("*.npy*")) - set(shards):
            path.unlink()
        _write_index(folder / INDEX, shards, encoder.dimension, len(documents), settings)
        content = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        _write(folder / RECORD, lambda path: path.write_text(content, encoding="utf-8"))
        return cls.load(folder, encoder)

    @classmethod
    def load(cls, folder: str | Path, encoder: Encoder) -> DenseRanker:
        """Opens an index that `build` wrote; the file is mapped into memory, not read.

        Raises:
            DenseError: the folder holds no complete index, or another encoder made it.
        """
        folder = Path(folder)
        record = _read_record(folder)
        if record is None:
            raise DenseError(f"{folder / RECORD}: not there, or of another version; build the index")
        _check_encoder(folder / RECORD, record["encoder"], encoder)
        try:
            index = faiss.read_index(str(folder / INDEX), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise DenseError(
                f"{folder / INDEX}: cannot be read ({error}); remove it and build again"
            ) from error
        if (index.ntotal, index.d) != (record["documents"], encoder.dimension):
            raise DenseError(
                f"{folder / INDEX}: {index.ntotal} vectors of length {index.d}, but {RECORD} names "
                f"{record['documents']} of length {encoder.dimension}; remove it and build again"
            )
        return cls(index, encoder)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def rank(self, queries: Sequence[str], topk: int) -> list[Ranking]:
        """One ranking per query, of at most `topk` documents; fewer if the corpus, or what is searched, has fewer.

        Raises:
            ValueError: for a `topk` below 1.
            EncoderError: the encoder gives no finite vector for a query.
        """
        if topk < 1:
            raise ValueError(f"topk is {topk}, it must be at least 1")
        rankings = [EMPTY] * len(queries)
        asked = [n for n, query in enumerate(queries) if query.strip()]
        if asked:
            vectors = self._encoder.encode_queries([queries[n] for n in asked])
            for n, scores, positions in zip(asked, *self._search(vectors, topk), strict=True):
                found = positions >= 0  # faiss fills up with -1
                scores, positions = scores[found], positions[found]
                order = np.lexsort((positions, -scores))[:topk]
                rankings[n] = Ranking(positions[order], scores[order])
        return rankings

    def _search(self, vectors: Vectors, topk: int) -> tuple[Vectors, npt.NDArray[np.int64]]:
        """[n, k] scores, falling, and positions; k is at least the smaller of `topk` and the corpus.

        Of equal scores at the end of a list faiss keeps any. An exact index tells from one more document whether the list
        ends in a tie, and is then searched for all of it.
        """
        exact = isinstance(self._index, faiss.IndexFlat)
        depth = min(topk + exact, len(self))
        while True:
            scores, positions = self._index.search(vectors, depth, params=self._parameters(depth))
            if not exact or depth == len(self) or (scores[:, topk - 1] > scores[:, -1]).all():
                return scores, positions
            depth = min(4 * depth, len(self))

    def _parameters(self, depth: int) -> faiss.SearchParameters | None:
        if not isinstance(self._index, faiss.IndexHNSW):
            return None  # what the index file says
        # With fewer candidates than results, faiss stops early and the list stays short.
        breadth = max(depth, self._index.hnsw.efSearch)
        return faiss.SearchParametersHNSW(efSearch=breadth)  # type: ignore[attr-defined]  # not in faiss' stubs


def documents_sha256(documents: Iterable[Document]) -> str:
    """SHA-256 of the documents' contents in their order: `documents_sha256` of `dense.json`, to tell corpora apart."""
    digest = hashlib.sha256()
    for document in documents:
        content = document.contents.encode("utf-8", "surrogatepass")
        digest.update(b"%d\n" % len(content) + content)
    return digest.hexdigest()


def _encode_shards(
    documents: Sequence[Document],
    folder: Path,
    encoder: Encoder,
    size: int,
    progress: Callable[[int, int], None],
) -> Iterator[Path]:
    """Files of [n, d] vectors in corpus order; those of an earlier build are used if their name has the right key."""
    identity = json.dumps(
        {key: value for key, value in encoder.identity.items() if key != "name"}, sort_keys=True
    )
    for start in range(0, len(documents), size):
        batch = documents[start : start + size]
        key = hashlib.sha256(f"{identity}\n{documents_sha256(batch)}".encode()).hexdigest()[:32]
        path = folder / f"{start:010d}-{key}.npy"
        if not path.exists():
            try:
                vectors = encoder.encode_passages([document.contents for document in batch])
            except EncoderError as error:
                raise DenseError(f"documents from position {start} on: {error}") from error
            _write(path, partial(_save, vectors))
        progress(start + len(batch), len(documents))
        yield path


def _save(vectors: Vectors, path: Path) -> None:
    with path.open("wb") as file:  # np.save would add a suffix to the name
        np.save(file, vectors, allow_pickle=False)


def _write(path: Path, save: Callable[[Path], object]) -> None:
    """Writes a file as a whole or not at all, also if the machine goes down."""
    scratch = path.with_name(path.name + ".tmp")
    save(scratch)
    with scratch.open("rb") as file:
        os.fsync(file.fileno())
    scratch.replace(path)


def _write_index(
    path: Path, shards: Sequence[Path], dimension: int, count: int, settings: DenseSettings
) -> None:
    index = _empty_index(shards, dimension, count, settings)
    for shard in shards:
        index.add(_read_shard(shard))
    _write(path, lambda scratch: faiss.write_index(index, str(scratch)))


def _empty_index(shards: Sequence[Path], dimension: int, count: int, settings: DenseSettings) -> faiss.Index:
    """An index without vectors; the cells of `ivf` are found with a part of those in the shards."""
    index: faiss.Index
    if settings.kind == "flat":
        index = faiss.IndexFlatIP(dimension)
    elif settings.kind == "hnsw":
        index = faiss.IndexHNSWFlat(dimension, settings.hnsw_links, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = index.hnsw.efSearch = settings.hnsw_breadth
    else:
        cells = max(1, min(round(4 * count**0.5), count // _FEWEST_PER_CELL))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, cells, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = _SEED
        index.nprobe = min(settings.ivf_probes, cells)
        index.train(_sample(shards, count, cells * _SAMPLES_PER_CELL))
    return index


def _sample(shards: Sequence[Path], count: int, size: int) -> Vectors:
    """[n, d] vectors of about `size` documents, spread evenly over the corpus."""
    step = max(1, count // size)
    return np.concatenate([_read_shard(shard)[::step] for shard in shards])


def _read_shard(path: Path) -> Vectors:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DenseError(f"{path}: cannot be read ({error}); remove it and build again") from error


def _read_record(folder: Path) -> dict[str, Any] | None:
    """What `dense.json` says; None if it is missing or of another format."""
    path = folder / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DenseError(f"{path}: cannot be read ({error}); remove it and build again") from error
    return record if isinstance(record, dict) and record.get("format") == _FORMAT else None


def _check_encoder(path: Path, built: dict[str, Any], encoder: Encoder) -> None:
    """Vectors of another encoder lie in another space, whatever its folder is called."""
    given = encoder.identity
    different = [key for key in given if key != "name" and built.get(key) != given[key]]
    if different:
        shown = "; ".join(f"{key}: {built.get(key)!r} then, {given[key]!r} now" for key in different)
        raise DenseError(
            f"{path}: the index was built with encoder {built['name']}, not with {given['name']} as it is given now "
            f"({shown}); give the former or build the index again"
        )
