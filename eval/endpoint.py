"""An OpenAI-compatible endpoint as the `LanguageModel` of an agent: token ids in, token ids out."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import time
from dataclasses import dataclass
from typing import Any

import httpx

from eval.completion import BodyError, parse_completion
from eval.errors import EvalError
from mempo.agents.base import Generation, RolloutError

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
            served = [str(entry["id"]) for entry in response.json()["data"]]
        except (ValueError, KeyError, TypeError):
            return  # an endpoint without a model list may still complete prompts
        if served and self.settings.model not in served:
            raise EvalError(f"{where} serves {', '.join(served[:5])}; --model is {self.settings.model!r}")

    async def complete(
        self, prompt_ids: list[int], *, max_tokens: int, stop_token_ids: list[int], seed: int | None
    ) -> Generation:
        """One request, retried until it works, retries are used up or the deadline passes.

        Raises:
            RolloutError: under `timeout`, `connection`, `status_<code>` or a cause of `eval.completion`.
        """
        body: dict[str, Any] = {
            "model": self.settings.model,
            "prompt": prompt_ids,
            "max_tokens": max_tokens,
            "temperature": self.settings.temperature,
            "stop_token_ids": stop_token_ids,
            "logprobs": 1,  # 0 means none to some servers
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,  # for servers that know only this one; also saves decoding
            "add_special_tokens": False,
        }
        if seed is not None:
            body["seed"] = seed
        try:
            async with asyncio.timeout(self.settings.deadline_s):
                return await self._complete(body, max_tokens)
        except TimeoutError:
            raise RolloutError("timeout", f"no answer within {self.settings.deadline_s:g} s") from None

    async def _complete(self, body: dict[str, Any], max_tokens: int) -> Generation:
        for attempt in range(self.settings.retries + 1):
            pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt) * self._jitter.uniform(0.5, 1.0)
            try:
                response = await self._http.post(f"{self.settings.base}/completions", json=body)
            except httpx.TransportError as error:
                failure = RolloutError("connection", f"{self.settings.base}: {error or type(error).__name__}")
            else:
                if response.status_code == 200:
                    try:
                        return parse_completion(
                            response.content, prompt_ids=body["prompt"], max_tokens=max_tokens
                        )
                    except BodyError as error:
                        if not error.broken:
                            raise
                        failure = error
                else:
                    failure = RolloutError(
                        f"status_{response.status_code}",
                        f"{self.settings.base}: HTTP {response.status_code}: {response.text[:300]}",
                    )
                    if response.status_code not in RETRIED_STATUSES:
                        raise failure
                    pause = max(pause, _retry_after(response))
            if attempt < self.settings.retries:
                await asyncio.sleep(pause)
        raise failure


class CompletionsModel:
    """The `LanguageModel` of one question.

    Attributes:
        seconds: time spent in requests, waits included.
    """

    def __init__(self, endpoint: Endpoint, *, stop_token_ids: list[int], question_id: str) -> None:
        self._endpoint, self._stop, self._question_id = endpoint, list(stop_token_ids), question_id
        self.seconds = 0.0

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        """One turn; see `Endpoint.complete` for what it raises."""
        settings = self._endpoint.settings
        seed = _seed(settings.seed, self._question_id, turn) if settings.temperature > 0 else None
        started = time.perf_counter()
        try:
            return await self._endpoint.complete(
                prompt_ids, max_tokens=max_tokens, stop_token_ids=self._stop, seed=seed
            )
        finally:
            self.seconds += time.perf_counter() - started


def _seed(seed: int, question_id: str, turn: int) -> int:
    digest = hashlib.blake2b(f"{seed}|{question_id}|{turn}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big")


def _retry_after(response: httpx.Response) -> float:
    try:
        return max(0.0, float(response.headers.get("retry-after", "0")))
    except ValueError:
        return 0.0  # a date: our own pauses will do


def _is_loopback(url: str) -> bool:
    return httpx.URL(url).host in ("localhost", "127.0.0.1", "::1")
