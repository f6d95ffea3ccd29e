"""What a server counts, in the Prometheus format."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

# Where workers of one server keep their numbers; set before they start. prometheus_client reads it when it is imported.
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """Counters of one worker; `text` is the sum over all workers of the server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "mempo_search_requests", "Answered requests", ["route", "status"], registry=self._registry
        )
        self.queries = Counter("mempo_search_queries", "Queries asked", registry=self._registry)
        self.empty = Counter("mempo_search_empty_queries", "Queries without a hit", registry=self._registry)
        self.failed = Counter(
            "mempo_search_failed_queries", "Queries with an error in their place", registry=self._registry
        )
        self.seconds = Histogram(
            "mempo_search_seconds",
            "Seconds of a request",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.waiting = Gauge(
            "mempo_search_waiting_queries",
            "Queries at work or waiting",
            multiprocess_mode="livesum",
            registry=self._registry,
        )
        self.reloads = Counter(
            "mempo_search_reloads",
            "Indexes that took the place of another",
            ["outcome"],
            registry=self._registry,
        )

    def text(self) -> bytes:
        """The page of `/metrics`."""
        if SHARED_FOLDER in os.environ:
            every = CollectorRegistry()
            MultiProcessCollector(every)
            return generate_latest(every)
        return generate_latest(self._registry)
