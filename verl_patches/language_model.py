"""verl's LLM server as the `LanguageModel` of an agent, one instance per session."""

from __future__ import annotations

import hashlib
import time
import uuid
from typing import Any

from mempo.agents.base import Generation, RolloutError


def request_seed(seed: int, draw: str, session: int, turn: int) -> int:
    """A seed for one request, the same in every run, mode and worker, and after a resume; 48 bits.

    Args:
        seed: of the run.
        draw: `training_draw` or `validation_draw`. The question's id alone would not do: a step that crosses the border of an
            epoch may ask a question twice, and with equal seeds the rollouts of the second time would be copies.
    """
    name = f"{seed}|{draw}|{session}|{turn}"
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest(), "big")


def training_draw(number: int) -> str:
    """Names the `number`-th question that the run has drawn (`verl_patches.loader`)."""
    return f"train|{number}"


def validation_draw(step: int, question: str) -> str:
    """Names a question of a validation, which asks each once."""
    return f"validation|{step}|{question}"


class VerlLanguageModel:
    """Token in, token out over verl's `LLMServerClient`.

    Every request carries `max_tokens` (verl's default is another one), the stop tokens and a seed of its own. vLLM says
    `completed` for a full stop and for a cut alike; the agent tells them apart by the last id.

    Attributes:
        weights: lowest and highest version of the policy's weights that wrote any part, None before the first request.
        seconds: time spent in requests.
    """

    def __init__(
        self,
        client: Any,
        sampling: dict[str, Any],
        *,
        stop_token_ids: list[int],
        seed: int,
        draw: str,
        session: int,
    ) -> None:
        self._client, self._sampling, self._stop = client, dict(sampling), list(stop_token_ids)
        self._seed_parts = (seed, draw, session)
        self._request_id = (
            uuid.uuid4().hex
        )  # one per session: the balancer keeps it on one server, for its prefix cache
        self.weights: tuple[int, int] | None = None
        self.seconds = 0.0

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        """One turn.

        Raises:
            RolloutError: if the server gave no log-probs, or dropped the request.
        """
        started = time.perf_counter()
        output = await self._client.generate(
            request_id=self._request_id,
            prompt_ids=list(prompt_ids),
            sampling_params={
                **self._sampling,
                "max_tokens": max_tokens,
                "stop_token_ids": self._stop,
                "seed": request_seed(*self._seed_parts, turn),
                "logprobs": True,
            },
        )
        self.seconds += time.perf_counter() - started
        ids, logprobs = list(output.token_ids), list(output.log_probs or [])
        if not ids or output.stop_reason == "aborted":
            raise RolloutError(
                "aborted", f"turn {turn + 1}: the server dropped the request ({output.stop_reason})"
            )
        if len(logprobs) != len(ids):
            raise RolloutError(
                "no_logprobs", f"turn {turn + 1}: {len(logprobs)} log-probs for {len(ids)} tokens"
            )
        self._note_weights(output.extra_fields)
        return Generation(ids, [float(value) for value in logprobs])

    def _note_weights(self, fields: dict[str, Any]) -> None:
        seen = [fields.get(name) for name in ("min_global_steps", "max_global_steps")]
        steps = [int(step) for step in seen if step is not None] + list(self.weights or ())
        if steps:
            self.weights = (min(steps), max(steps))
