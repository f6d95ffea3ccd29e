"""An endpoint as the `LanguageModel` of an agent, one instance per question: over token ids, or over chat messages."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from eval.body import Usage
from eval.chat import chat_request, parse_chat
from eval.completion import completion_request, parse_completion
from eval.endpoint import Answer, Endpoint
from mempo.agents.base import Generation
from mempo.messages import MessageReader
from mempo.tokens import ChatTokens


class EndpointModel:
    """What both ways have in common: seeds, time and the API's own count of tokens.

    Attributes:
        usage: tokens that the API told, summed over the requests; None if it told none.
        seconds: time spent in requests, waits included.
    """

    # Whether ids and log-probs are those of the engine; otherwise ids are ours, and log-probs are 0.
    exact: bool

    def __init__(self, endpoint: Endpoint, *, question_id: str) -> None:
        self._endpoint, self._question_id = endpoint, question_id
        self.usage: Usage | None = None
        self.seconds = 0.0

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        """One turn; see `Endpoint.ask` for what it raises."""
        raise NotImplementedError

    async def _ask(
        self, path: str, fields: Mapping[str, Any], read: Callable[[bytes], Answer], *, turn: int
    ) -> Answer:
        settings = self._endpoint.settings
        seed = {"seed": _seed(settings.seed, self._question_id, turn)} if settings.temperature > 0 else {}
        started = time.perf_counter()
        try:
            return await self._endpoint.ask(path, {**fields, **seed}, read)
        finally:
            self.seconds += time.perf_counter() - started

    def _count(self, told: Usage | None) -> None:
        if told is not None:
            before = self.usage or Usage(0, 0)
            self.usage = Usage(before.prompt + told.prompt, before.completion + told.completion)


class CompletionsModel(EndpointModel):
    """Token ids in, token ids out, over `/v1/completions`."""

    exact = True

    def __init__(self, endpoint: Endpoint, tokens: ChatTokens, *, question_id: str) -> None:
        super().__init__(endpoint, question_id=question_id)
        self._stop = list(tokens.stop_token_ids)

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        generation, usage = await self._ask(
            "completions",
            completion_request(prompt_ids, max_tokens=max_tokens, stop_token_ids=self._stop),
            lambda content: parse_completion(content, prompt_ids=prompt_ids, max_tokens=max_tokens),
            turn=turn,
        )
        self._count(usage)
        return generation


class ChatModel(EndpointModel):
    """Messages in, text out, over `/v1/chat/completions`.

    The agent's prompt is read back as messages, and the text is encoded as the model would have written it. These ids
    are the tokenizer's, not the engine's, and log-probs are unknown (0). A reply that kept to the engine's count but is
    longer than `max_tokens` in ours is cut there, and counts as truncated.
    """

    exact = False

    def __init__(
        self, endpoint: Endpoint, tokens: ChatTokens, reader: MessageReader, *, question_id: str
    ) -> None:
        super().__init__(endpoint, question_id=question_id)
        self._tokens, self._reader = tokens, reader

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        conversation = self._reader.read(prompt_ids)
        reply = await self._ask(
            "chat/completions",
            chat_request(
                conversation,
                max_tokens=max_tokens,
                chat_template_kwargs=self._tokens.chat_template_kwargs,
            ),
            lambda content: parse_chat(content, opened=conversation.opened),
            turn=turn,
        )
        self._count(reply.usage)
        ids = self._tokens.encode_reply(reply.text)
        if not reply.truncated:
            ids.append(self._tokens.turn_end_id)
        truncated = reply.truncated or len(ids) > max_tokens
        ids = ids[:max_tokens]
        return Generation(ids, [0.0] * len(ids), truncated=truncated)


def _seed(seed: int, question_id: str, turn: int) -> int:
    digest = hashlib.blake2b(f"{seed}|{question_id}|{turn}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big")
