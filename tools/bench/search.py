"""A search server under load, and the same index searched by plain bm25s in this process."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from bm25s.tokenization import Tokenized

from tools.bench.load import run_load
from tools.search.analyzer import Analyzer
from tools.search.manifest import Manifest
from tools.search.store import DocumentStore

WORDS = 12  # of a made-up query, about as long as a question


@dataclass(frozen=True)
class SearchBench:
    """What is measured.

    Attributes:
        url: of the running server.
        index: its folder: queries are drawn from its passages, and bm25s searches it in this process.
        queries: a file of queries instead, one per line, or JSON lines with `question`.
        clients: single-query clients at the same time.
        batch: queries of a request of the batched measurement, by `batch_clients` at the same time.
    """

    url: str
    index: Path | None = None
    queries: Path | None = None
    clients: int = 64
    batch: int = 64
    batch_clients: int = 4
    seconds: float = 10.0
    topk: int = 3
    seed: int = 0

    def run(self) -> dict[str, Any]:
        """Raises ValueError for an index that is none, and where nothing is asked or no request of a measurement was answered."""
        queries = self._queries()
        single = self._load(queries, self.clients, 1)
        batched = self._load(queries, self.batch_clients, self.batch)
        alone = self._in_process(queries)
        return {
            "single_qps": single.qps,
            "single_p50_ms": single.percentile_ms(50),
            "single_p99_ms": single.percentile_ms(99),
            "batch_qps": batched.qps,
            "batch_p50_ms": batched.percentile_ms(50),
            "batch_p99_ms": batched.percentile_ms(99),
            "inprocess_qps": alone,
            "single_to_inprocess": single.qps / alone if alone else None,
            "batch_to_inprocess": batched.qps / alone if alone else None,
            "busy": single.busy + batched.busy,
            "errors": sum((single.errors + batched.errors).values()),
            "causes": dict(single.errors + batched.errors),
            "settings": {
                **{
                    name: str(value) if isinstance(value, Path) else value
                    for name, value in asdict(self).items()
                },
                "cores": len(os.sched_getaffinity(0)),
                "distinct_queries": len(queries),
            },
        }

    def _load(self, queries: Sequence[str], clients: int, batch: int) -> Any:
        load = asyncio.run(
            run_load(
                self.url.rstrip("/"),
                queries,
                clients=clients,
                batch=batch,
                seconds=self.seconds,
                topk=self.topk,
            )
        )
        if not load.queries:
            causes = ", ".join(f"{cause} ({count})" for cause, count in load.errors.most_common())
            raise ValueError(f"{self.url}: every request failed: {causes}; is `mempo search serve` up there?")
        return load

    def _queries(self) -> list[str]:
        if self.queries is not None:
            return [_question(line) for line in self.queries.read_text().splitlines() if line.strip()]
        if self.index is None:
            raise ValueError("nothing to ask: give --index or --queries")
        Manifest.read(self.index)
        documents = DocumentStore(self.index)
        random = np.random.default_rng(self.seed)
        return [
            text
            for place in random.integers(0, len(documents), 2000)
            if (text := _span(documents[int(place)].text, random))
        ]

    def _in_process(self, queries: Sequence[str]) -> float | None:
        """Queries per second of bm25s alone in one thread, its own top-k, from text to positions."""
        postings = self.index / "bm25" / "postings" if self.index is not None else None
        if postings is None or not postings.is_dir():
            return None
        index = bm25s.BM25.load(postings, mmap=True)
        analyze, terms = Analyzer(), index.vocab_dict
        done, begin = 0, time.perf_counter()
        while (seconds := time.perf_counter() - begin) < self.seconds:
            asked = [queries[(done + place) % len(queries)] for place in range(self.batch)]
            ids = [[terms[stem] for stem in analyze(query) if stem in terms] for query in asked]
            index.retrieve(Tokenized(ids, terms), k=self.topk, show_progress=False)
            done += len(asked)
        return done / seconds


def _span(text: str, random: np.random.Generator) -> str:
    """Some words of a passage, from a random place on."""
    found = text.split()
    start = int(random.integers(0, max(1, len(found) - WORDS)))
    return " ".join(found[start : start + WORDS])


def _question(line: str) -> str:
    try:
        return str(json.loads(line)["question"])
    except (ValueError, TypeError, KeyError):
        return line.strip()
