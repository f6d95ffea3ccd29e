"""A search API in the style of Serper: `POST /search` with a key, organic results back."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import time
from dataclasses import dataclass
from typing import Any

import httpx
from pydantic import SecretStr

from tools.search.client import RETRIED_STATUSES, SearchFailure, retry_after
from tools.search.document import Document
from tools.search.settings import ServerError, is_loopback
from tools.search.web.document import clean, web_document
from tools.search.web.rate import RateLimit

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0
SHOWN_CHARS = 200


@dataclass(frozen=True)
class ProviderSettings:
    """How to reach the search API; plain data without the key, so that it can be logged and sent to workers.

    Attributes:
        base_url: address of the API, without `/search`.
        key_env: NAME of the environment variable that holds the key.
        deadline_s: seconds for one search, with its waits and retries.
        requests_per_s: requests started per second, retries included.

    Raises:
        ServerError: a value that cannot work, named by its field.
    """

    base_url: str = "https://google.serper.dev"
    key_env: str = "SERPER_API_KEY"
    deadline_s: float = 30.0
    requests_per_s: float = 5.0

    def __post_init__(self) -> None:
        _check_base_url(self.base_url)
        if not self.deadline_s > 0 or not self.requests_per_s > 0:
            raise ServerError("web search: deadline_s and requests_per_s must be positive")


class SerperProvider:
    """Searches the web through the API. One object belongs to one event loop, where any number of tasks share it."""

    def __init__(self, settings: ProviderSettings) -> None:
        """Reads the key from the environment.

        Raises:
            ServerError: the variable is not set, or what it holds cannot be a key.
        """
        self.settings = settings
        self._key = _read_key(settings.key_env)
        self._url = settings.base_url.rstrip("/") + "/search"
        self._rate = RateLimit(settings.requests_per_s)
        self._jitter = random.Random()  # own generator: must not move the run's seeded ones
        self._http = httpx.AsyncClient(
            timeout=None
        )  # the deadline around the whole call bounds every step of it

    async def search(self, query: str, topk: int) -> list[Document]:
        """At most `topk` results, best first, each address once; empty if the API found nothing.

        Raises:
            SearchFailure: no answer within the deadline, or none that can be used. `cause` is `timeout`, `rate_limit`,
                `connection`, `request`, `status_<code>` or `schema`.
            ValueError: `topk` below 1.
        """
        if topk < 1:
            raise ValueError(f"topk is {topk}; at least 1 is expected")
        try:
            async with asyncio.timeout(self.settings.deadline_s):
                return await self._search(query, topk)
        except TimeoutError as error:
            raise SearchFailure(
                "timeout", f"{self._url}: no answer within {self.settings.deadline_s:g} s"
            ) from error

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _search(self, query: str, topk: int) -> list[Document]:
        """Tries until it works, cannot work, or the next attempt would come after the deadline."""
        give_up_at = time.monotonic() + self.settings.deadline_s
        for attempt in itertools.count():
            try:
                await self._wait_for_turn(give_up_at - time.monotonic())
                return await self._attempt(query, topk)
            except SearchFailure as failure:
                pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(attempt, 10))
                pause = max(pause * self._jitter.uniform(0.5, 1.0), failure.wait_s or 0.0)
                if not failure.retry or time.monotonic() + pause >= give_up_at:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def _wait_for_turn(self, left_s: float) -> None:
        wait = self._rate.book(left_s)
        if wait is None:
            raise SearchFailure(
                "rate_limit",
                f"{self._url}: more searches wait than {self.settings.requests_per_s:g} requests per second serve "
                "before the deadline; search less at a time, or raise requests_per_s if the API allows more",
            )
        await asyncio.sleep(wait)

    async def _attempt(self, query: str, topk: int) -> list[Document]:
        try:
            response = await self._http.post(
                self._url,
                json={"q": clean(query), "num": topk},
                headers={"X-API-KEY": self._key.get_secret_value()},
            )
        except httpx.TransportError as error:
            raise SearchFailure(
                "connection", f"{self._url}: {error or type(error).__name__}", retry=True
            ) from error
        except httpx.HTTPError as error:
            raise SearchFailure("request", f"{self._url}: {error}") from error
        if response.status_code != 200:
            raise SearchFailure(
                f"status_{response.status_code}",
                f"{self._url}: HTTP {response.status_code}{self._advice(response)}",
                retry=response.status_code in RETRIED_STATUSES,
                wait_s=retry_after(response),
            )
        return parse_answer(response.content, topk, self._url)

    def _advice(self, response: httpx.Response) -> str:
        """What the API says, without the key in case it repeats it, and where to look if the key is refused."""
        said = response.text.replace(self._key.get_secret_value(), "[key]")[:SHOWN_CHARS]
        refused = response.status_code in (401, 403)
        return (f" (check the key in {self.settings.key_env})" if refused else "") + f": {said!r}"


def parse_answer(body: bytes, topk: int, name: str) -> list[Document]:
    """The first `topk` results of an answer, each address once. Results without an address are left out.

    Args:
        name: what error messages call the source.

    Raises:
        SearchFailure: cause `schema`. A body in another format must not pass for "no results".
    """
    try:
        content = json.loads(body)
        organic = content.get("organic") if isinstance(content, dict) else None
        if not isinstance(organic, list):
            raise ValueError("organic is not a list")
        found: dict[str, Document] = {}
        for place, result in enumerate(organic):
            link, title, snippet = (_text(result, field, place) for field in ("link", "title", "snippet"))
            if link:
                found.setdefault(link, web_document(link, title, snippet))
        if organic and not found:
            raise ValueError("no result in organic has a link")
    except (ValueError, RecursionError) as error:
        raise SearchFailure("schema", f"{name}: the answer is not understood: {error}") from error
    return list(found.values())[:topk]


def _text(result: Any, field: str, place: int) -> str:
    """A field of a result, blank where the API has nothing to say. Raises ValueError for what is not a text."""
    if not isinstance(result, dict):
        raise ValueError(f"organic.{place} is not an object")
    value = result.get(field)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"organic.{place}.{field} is not a string")
    return (value or "").strip()


def _check_base_url(base_url: str) -> None:
    """The address must not hold secrets, as it is logged and cached, and must not send the key in the clear."""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ServerError(f"web search: base_url is not an address: {error}") from error
    if url.userinfo or url.query or url.fragment:
        raise ServerError(
            "web search: base_url holds a user, a query or a fragment; give the bare address, "
            "and the key in the environment"
        )
    if not url.host or not (url.scheme == "https" or (url.scheme == "http" and is_loopback(url.host))):
        raise ServerError(
            f"web search: base_url is {base_url!r}; it must start with https:// "
            "(http:// only for this machine, as the key would be readable on the way)"
        )


def _read_key(variable: str) -> SecretStr:
    """The key in that environment variable; its value appears in no message."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ServerError(
            f"environment variable {variable} is not set: export the key of the search API in it"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        # Refused here, as the HTTP library would quote the value in its own error.
        raise ServerError(
            f"environment variable {variable}: a key has printable ASCII characters only; copy it again"
        )
    return SecretStr(key)
