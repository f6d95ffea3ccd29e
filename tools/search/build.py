"""Building an index folder from a corpus file: step by step, each kept, so that an interrupted build goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.hashing import file_sha256
from tools.search.bm25 import BM25Ranker
from tools.search.corpus import Corpus
from tools.search.document import Document
from tools.search.layouts import EXPECTED
from tools.search.manifest import FORMAT, IndexFolderError, Manifest, sizes
from tools.search.memory import check_free, postings_build_bytes
from tools.search.records import CorpusError, is_packed, open_records
from tools.search.store import DocumentStore, write_documents
from tools.search.titles import TitleIndex

if TYPE_CHECKING:  # they bring torch and faiss, which a BM25 index does not need
    from tools.search.dense import DenseSettings

KINDS = ("bm25", "dense", "hybrid")
_SOURCE = "source.json"  # what a half-built folder is built from
_DOCUMENTS = "documents.json"  # written once the documents are stored

Progress = Callable[[str, int, int], None]  # step, done, of how many


@dataclass(frozen=True)
class BuildSettings:
    """What to build.

    Attributes:
        kind: bm25, dense or hybrid (both).
        encoder: folder of the encoder; dense and hybrid need one.
        dense: how vectors are stored and searched.
        strict: fail on malformed lines instead of leaving them out.
        replace: put the new index in the place of one that is there.
    """

    kind: str = "bm25"
    encoder: Path | None = None
    dense: DenseSettings | None = None
    strict: bool = False
    replace: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise IndexFolderError(f"kind is {self.kind!r}; known are {', '.join(KINDS)}")
        if (self.kind == "bm25") != (self.encoder is None):
            raise IndexFolderError(
                f"kind {self.kind} takes {'no' if self.kind == 'bm25' else 'an'} encoder (--encoder)"
            )


def build_index(corpus: Path, out: Path, settings: BuildSettings, progress: Progress) -> Manifest:
    """Builds the index of a corpus file in `out`. The same call after an interruption uses what is done.

    Raises:
        CorpusError: the corpus cannot be read, repeats an id, or, if strict, has malformed lines.
        IndexFolderError: `out` is there already, or memory does not suffice.
    """
    if not corpus.exists():
        raise CorpusError(f"{corpus}: no such file; a corpus is {EXPECTED}")
    is_packed(corpus)  # a folder, or a file that nobody may read, is refused here
    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not there.is_dir():
        raise IndexFolderError(f"{there} is a file; --out takes the folder of the new index")
    if out.exists() and not settings.replace:
        raise IndexFolderError(f"{out} exists; choose another folder or add --replace")
    for place in (out, _old(out)):
        _check_own(place)
    check_free(postings_build_bytes(corpus) if settings.kind != "dense" else 0, "building the postings")
    source = {"name": corpus.name, "bytes": _size(corpus), "sha256": file_sha256(corpus)}
    partial = out.with_name(f"{out.name}.partial")
    _open_partial(partial, {"format": FORMAT, "corpus": source, "strict": settings.strict})
    documents, read = _stored(corpus, partial, settings.strict, progress)
    _once(partial / "titles", lambda folder: TitleIndex.build(documents, folder))
    described: dict[str, Any] = {"strict": settings.strict}
    if settings.kind != "dense":
        total = len(documents)
        _once(
            partial / "bm25",
            lambda folder: BM25Ranker.build(documents, folder, lambda done: progress("BM25", done, total)),
        )
    if settings.encoder is not None:
        described["dense"] = _dense(documents, partial / "dense", settings, progress)
    for name in (_SOURCE, _DOCUMENTS):
        (partial / name).unlink()
    manifest = Manifest(
        kind=settings.kind,
        documents=len(documents),
        malformed=read["malformed"],
        problems=read["problems"],
        corpus=source,
        settings=described,
        files=sizes(partial),
    )
    manifest.write(partial)
    _take_place(partial, out)
    return manifest


def _size(corpus: Path) -> int:
    return corpus.stat().st_size


def _open_partial(partial: Path, source: dict[str, Any]) -> None:
    """An empty folder, or the one of an earlier build from the same corpus."""
    stamp = partial / _SOURCE
    if partial.exists() and any(partial.iterdir()) and not stamp.is_file():
        raise IndexFolderError(f"{partial} is no half-built index: move it away, or choose another --out")
    if partial.exists() and not (stamp.is_file() and json.loads(stamp.read_text()) == source):
        shutil.rmtree(partial)
    partial.mkdir(parents=True, exist_ok=True)
    stamp.write_text(json.dumps(source))


def _stored(
    corpus: Path, partial: Path, strict: bool, progress: Progress
) -> tuple[DocumentStore, dict[str, Any]]:
    """The documents, and what was wrong with the corpus."""
    done = partial / _DOCUMENTS
    if not done.is_file():
        total = _size(corpus)
        with open_records(corpus) as records:
            reading = Corpus(records.entries, str(corpus), strict, records.unit)
            write_documents(_watched(reading, lambda: progress("reading", records.read(), total)), partial)
        progress("reading", total, total)
        done.write_text(json.dumps({"malformed": reading.malformed, "problems": reading.problems}))
    return DocumentStore(partial), json.loads(done.read_text())


def _watched(documents: Iterable[Document], tell: Callable[[], None]) -> Iterator[Document]:
    for number, document in enumerate(documents):
        if number % 1000 == 0:
            tell()
        yield document


def _once(folder: Path, write: Callable[[Path], None]) -> None:
    """`folder`, written by `write` unless it is there; it gets its name when it is complete."""
    if folder.exists():
        return
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    write(new)
    new.rename(folder)


def _dense(
    documents: DocumentStore, folder: Path, settings: BuildSettings, progress: Progress
) -> dict[str, Any]:
    from tools.search.dense import SHARDS, DenseRanker, DenseSettings
    from tools.search.encoder import Encoder

    assert settings.encoder is not None
    dense = settings.dense or DenseSettings()
    encoder = Encoder(settings.encoder)
    check_free(len(documents) * encoder.dimension * 4, "building the vectors")
    folder.mkdir(exist_ok=True)  # keeps its own account of what is done
    DenseRanker.build(
        documents, folder, encoder, dense, lambda done, total: progress("encoding", done, total)
    )
    shutil.rmtree(folder / SHARDS)  # the vectors are in the index now
    return asdict(dense)


def _take_place(partial: Path, out: Path) -> None:
    """Running servers keep what they have open, and see the new folder within a second."""
    old = _old(out)
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        out.rename(old)
    partial.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def _old(out: Path) -> Path:
    """Where the index that is replaced lies for a moment."""
    return out.with_name(f"{out.name}.old")


def _check_own(folder: Path) -> None:
    """Only an index is replaced, and nothing that lies in its folder besides. Raises IndexFolderError."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    known = Manifest.read(folder).files
    added = [name for name in sizes(folder) if name not in known]
    if added:
        raise IndexFolderError(
            f"{folder / added[0]} is no part of the index: move it away, or choose another --out"
        )
