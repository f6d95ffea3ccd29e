"""How a search server listens and what it accepts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field


class ServerError(RuntimeError):
    """The server cannot start or had to stop; the message says why."""


@dataclass(frozen=True)
class ServerSettings:
    """How a server listens and what it accepts.

    Attributes:
        token: bearer token that `/retrieve` asks for; needed unless `host` is a loopback address.
        default_topk: results per query where the request names no `topk`.
        max_topk, max_queries, max_results, max_pages, max_body_bytes: a request over one of them (results: queries times
            topk; pages: `urls` of `/access`) is refused with its name. The published batch of Search-R1 has 512 x 5 queries.
        max_query_chars: a longer query has an error in its place; the others of its request are answered.
        max_waiting: queries of one worker that are at work or waiting; more get 503 with Retry-After, except for a
            request that finds nobody waiting.
        max_batch: queries that are searched in one call; a larger request goes in several.
        threads: calls of one worker at the same time.
        workers: processes; they share the socket and, through memory maps, the index.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = field(default=None, repr=False)  # must not reach logs
    default_topk: int = 3
    max_topk: int = 100
    max_queries: int = 8_192
    max_results: int = 51_200
    max_pages: int = 512
    max_query_chars: int = 4_000
    max_body_bytes: int = 16_000_000
    max_waiting: int = 16_384
    max_batch: int = 64
    threads: int = 1
    workers: int = 1

    def __post_init__(self) -> None:
        if not self.token and not is_loopback(self.host):
            raise ServerError(
                f"host {self.host} can be reached from other machines: give a token (--token-env NAME), "
                "or bind to 127.0.0.1"
            )


LIMITS = (
    f"Limits of a request: {ServerSettings.max_queries:,} queries, {ServerSettings.max_query_chars:,} characters each "
    f"(a longer one fails alone), {ServerSettings.max_topk} results for each and {ServerSettings.max_results:,} in all, "
    f"{ServerSettings.max_pages} pages, {ServerSettings.max_body_bytes // 10**6} MB. With more than "
    f"{ServerSettings.max_waiting:,} queries waiting in a worker the answer is 503 with Retry-After."
)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address. A host name other than localhost counts as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
