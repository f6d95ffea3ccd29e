"""Many clients that ask a search server at the same time, each the next query as soon as it has its answer."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import aiohttp
import numpy as np

LONGEST_PAUSE_S = 5.0


@dataclass
class Load:
    """What the clients saw.

    Attributes:
        seconds: from the first request to the last answer.
        latencies: seconds of each answered request, pauses after a 503 included.
        busy: 503 answers with Retry-After, which were asked again.
        errors: cause → requests that were given up.
    """

    queries: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    busy: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def qps(self) -> float:
        return self.queries / self.seconds if self.seconds else 0.0

    def percentile_ms(self, share: float) -> float:
        """Latency in milliseconds below which this share (0 to 100) of the requests stayed."""
        return float(np.percentile(self.latencies, share)) * 1000 if self.latencies else float("nan")


async def run_load(
    url: str, queries: Sequence[str], *, clients: int, batch: int, seconds: float, topk: int
) -> Load:
    """`clients` at once for `seconds`; each request holds `batch` queries. Every client gets at least one answer."""
    load = Load()
    turn = itertools.cycle(range(0, len(queries), batch))
    begin = time.perf_counter()
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        await asyncio.gather(
            *(
                _client(session, f"{url}/retrieve", queries, turn, batch, topk, begin + seconds, load)
                for _ in range(clients)
            )
        )
    load.seconds = time.perf_counter() - begin
    return load


async def _client(
    session: aiohttp.ClientSession,
    url: str,
    queries: Sequence[str],
    turn: Iterator[int],
    batch: int,
    topk: int,
    until: float,
    load: Load,
) -> None:
    while True:
        start = next(turn)
        asking = list(queries[start : start + batch])
        body = {"queries": asking, "topk": topk, "return_scores": True}
        asked = time.perf_counter()
        cause = await _ask(session, url, body, load)
        if cause is None:
            load.latencies.append(time.perf_counter() - asked)
            load.queries += len(asking)
        else:
            load.errors[cause] += 1
        if time.perf_counter() >= until:
            return


async def _ask(session: aiohttp.ClientSession, url: str, body: dict[str, object], load: Load) -> str | None:
    """None once answered, or the cause of the failure."""
    while True:
        try:
            async with session.post(url, json=body) as response:
                content = await response.read()
                if response.status == 200:
                    # Parsed only where it may matter: the load generator shares the machine with the server.
                    failed = b'"errors"' in content and json.loads(content).get("errors")
                    return "query" if failed else None
                if response.status != 503 or "Retry-After" not in response.headers:
                    return f"status_{response.status}"
                load.busy += 1
                pause = float(response.headers["Retry-After"])
        except (aiohttp.ClientError, TimeoutError) as error:
            return type(error).__name__
        await asyncio.sleep(min(pause, LONGEST_PAUSE_S))
