"""Connections to an OpenAI-compatible endpoint: one request, with retries and a deadline."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from eval.body import BodyError
from eval.errors import EvalError
from mempo.agents.base import RolloutError
from tools.search.client import retry_after

Answer = TypeVar("Answer")

RETRIED_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504})
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True)
class EndpointSettings:
    """Where the model answers, and how a request is made.

    Attributes:
        url: address of the API, with or without `/v1`.
        model: name under which the endpoint serves the model.
        temperature: 0 is greedy.
        seed: with a temperature, every request gets a seed of its own from this one, the question and the turn.
        deadline_s: seconds for one turn, retries and waits included.
        retries: further attempts after a connection error, 429, a server error or a torn answer.
        api_key_env: name of the environment variable that holds the API key; no key if the variable is not set.
        connections: requests in flight at most.
    """

    url: str
    model: str
    temperature: float = 0.0
    seed: int = 0
    deadline_s: float = 600.0
    retries: int = 6
    api_key_env: str = "OPENAI_API_KEY"
    connections: int = 32

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise EvalError(
                f"--endpoint is {self.url!r}; write `local`, or a URL such as http://host:8000/v1"
            )
        if self.temperature < 0 or self.deadline_s <= 0 or self.retries < 0 or self.connections < 1:
            raise EvalError(
                "endpoint: deadline and connections must be positive, temperature and retries not negative"
            )

    @property
    def base(self) -> str:
        """The address up to and including `/v1`."""
        return self.url.rstrip("/").removesuffix("/v1") + "/v1"


class Endpoint:
    """Connections to one endpoint, shared by all questions of one event loop; use as an async context manager."""

    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        self._jitter = random.Random()  # own generator: pauses must not move anyone's seeded one

    async def __aenter__(self) -> Endpoint:
        key = os.environ.get(self.settings.api_key_env)
        size = self.settings.connections
        self._http = httpx.AsyncClient(
            timeout=None,  # the deadline around a whole turn bounds every step of it
            limits=httpx.Limits(max_connections=size, max_keepalive_connections=size),
            headers={"Authorization": f"Bearer {key}"} if key else None,
            trust_env=not _is_loopback(self.settings.url),  # a proxy must not catch calls to our own server
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def check(self) -> None:
        """Asks for the list of models.

        Raises:
            EvalError: if the endpoint cannot be reached, refuses the key, or does not serve the model.
        """
        entries = await self._models()
        served = [str(entry["id"]) for entry in entries]
        if served and self.settings.model not in served:
            where = f"{self.settings.base}/models"
            raise EvalError(f"{where} serves {', '.join(served[:5])}; --model is {self.settings.model!r}")

    async def window(self) -> int | None:
        """Tokens of prompt and response together, where the list of models tells (vLLM's does)."""
        lengths = {entry["id"]: entry.get("max_model_len") for entry in await self._models()}
        length = lengths.get(self.settings.model)
        return length if isinstance(length, int) else None

    async def ask(self, path: str, fields: Mapping[str, Any], read: Callable[[bytes], Answer]) -> Answer:
        """One request, repeated until it works, retries are used up or the deadline passes.

        Args:
            path: below `/v1/`, e.g. `completions`.
            fields: of the body, besides model and temperature.
            read: makes something of a body; raises BodyError.

        Raises:
            RolloutError: under `timeout`, `connection`, `status_<code>`, a cause of `read`, or `retry_after` if the server
                asks to wait past the deadline. A wait that would outlast the deadline is not begun: the failure before it
                is the cause.
        """
        body = {"model": self.settings.model, "temperature": self.settings.temperature, **fields}
        try:
            async with asyncio.timeout(self.settings.deadline_s):
                return await self._ask(f"{self.settings.base}/{path}", body, read)
        except TimeoutError:
            raise RolloutError(
                "timeout", f"no answer within the deadline of {self.settings.deadline_s:g} s (--deadline)"
            ) from None

    async def _ask(self, url: str, body: Mapping[str, Any], read: Callable[[bytes], Answer]) -> Answer:
        give_up_at = time.monotonic() + self.settings.deadline_s
        for attempt in range(self.settings.retries + 1):
            pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt) * self._jitter.uniform(0.5, 1.0)
            try:
                response = await self._http.post(url, json=body)
            except httpx.TransportError as error:
                failure = RolloutError("connection", f"{url}: {error or type(error).__name__}")
            else:
                if response.status_code == 200:
                    try:
                        return read(response.content)
                    except BodyError as error:
                        if not error.broken:
                            raise
                        failure = error
                else:
                    failure = RolloutError(
                        f"status_{response.status_code}",
                        f"{url}: HTTP {response.status_code}: {response.text[:300]}",
                    )
                    if response.status_code not in RETRIED_STATUSES:
                        raise failure
                    pause = max(pause, self._asked_wait(response, give_up_at))
            if attempt == self.settings.retries or time.monotonic() + pause >= give_up_at:
                break
            await asyncio.sleep(pause)
        raise failure

    def _asked_wait(self, response: httpx.Response, give_up_at: float) -> float:
        """Seconds that the server asks to wait, 0 if it asks for none; raises RolloutError if they pass the deadline."""
        wait = retry_after(response) or 0.0
        if wait and time.monotonic() + wait >= give_up_at:
            raise RolloutError(
                "retry_after",
                f"HTTP {response.status_code}: the server asks to wait {wait:.0f} s, past the deadline of "
                f"{self.settings.deadline_s:g} s (--deadline): {response.text[:200]}",
            )
        return wait

    async def _models(self) -> list[dict[str, Any]]:
        """The entries of the list of models; empty for an endpoint without one, which may still answer."""
        where = f"{self.settings.base}/models"
        try:
            async with asyncio.timeout(min(30.0, self.settings.deadline_s)):
                response = await self._http.get(where)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise EvalError(f"{where} does not answer: {error or type(error).__name__}") from error
        if response.status_code in (401, 403):
            raise EvalError(
                f"{where}: HTTP {response.status_code}; put a valid key into the environment variable "
                f"{self.settings.api_key_env}"
            )
        try:
            return [entry for entry in response.json()["data"] if "id" in entry]
        except (ValueError, KeyError, TypeError):
            return []


def _is_loopback(url: str) -> bool:
    return httpx.URL(url).host in ("localhost", "127.0.0.1", "::1")
