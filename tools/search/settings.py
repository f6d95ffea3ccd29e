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
        max_topk, max_queries, max_query_chars, max_body_bytes: a request over one of them is refused with its name.
        max_waiting: queries of one worker that are at work or waiting; more get 503 with Retry-After.
        max_batch: queries that are searched in one call.
        threads: calls of one worker at the same time.
        workers: processes; they share the socket and, through memory maps, the index.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = field(default=None, repr=False)  # must not reach logs
    default_topk: int = 3
    max_topk: int = 100
    max_queries: int = 512
    max_query_chars: int = 4_000
    max_body_bytes: int = 4_000_000
    max_waiting: int = 4_096
    max_batch: int = 64
    threads: int = 1
    workers: int = 1

    def __post_init__(self) -> None:
        if not self.token and not is_loopback(self.host):
            raise ServerError(
                f"host {self.host} can be reached from other machines: give a token (--token-env NAME), "
                "or bind to 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address. A host name other than localhost counts as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
