"""Where a server's answers come from; plain functions of modules, so that they reach worker processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from tools.search.app import Source
from tools.search.backend import IndexBackend
from tools.search.corpus import read_corpus
from tools.search.index import bm25_index, open_index
from tools.search.manifest import NAME
from tools.search.settings import ServerSettings

if TYPE_CHECKING:  # the readers of web pages take a second to import
    from tools.search.web.provider import ProviderSettings


def index_source(folder: Path, encoder: Path | None, settings: ServerSettings) -> Source:
    """An index folder; another one that takes its place is loaded within a second."""

    def version() -> tuple[int, int]:
        stat = (folder / NAME).stat()
        return stat.st_ino, stat.st_mtime_ns

    return Source(lambda: IndexBackend(open_index(folder, encoder), settings), version)


def corpus_source(corpus: Path, settings: ServerSettings) -> Source:
    """A corpus file, indexed with BM25 at the start."""
    return Source(lambda: IndexBackend(bm25_index(read_corpus(corpus)), settings))


def web_source(cache: Path, mode: str, provider: ProviderSettings, _: ServerSettings) -> Source:
    """The web, through a cache folder. Raises ServerError for an unknown mode, and without the key that it needs."""
    from tools.search.web.backend import WebBackend
    from tools.search.web.cache import Mode, WebCache
    from tools.search.web.searcher import WebSearcher

    searcher = WebSearcher(WebCache(cache, cast(Mode, mode)), provider)
    return Source(lambda: WebBackend(searcher))
