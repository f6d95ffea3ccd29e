"""The body of a `/v1/completions` answer as a `Generation`; a body that is not understood is an error that says why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any

from mempo.agents.base import Generation, RolloutError

_ID_PREFIX = "token_id:"  # how vLLM spells a token when asked for `return_tokens_as_token_ids`


class BodyError(RolloutError):
    """The answer is not what was asked for. `broken` marks a torn transfer, which another attempt may mend."""

    def __init__(self, cause: str, message: str, *, broken: bool = False) -> None:
        super().__init__(cause, message)
        self.broken = broken


def parse_completion(content: bytes, *, prompt_ids: Sequence[int], max_tokens: int) -> Generation:
    """Reads the generated token ids and their log-probs (natural log, one per token).

    Raises:
        BodyError: `not_json` for a torn body, `schema` for one of another shape, `no_token_ids` for an endpoint that
            returns text only, `prompt_changed` if the endpoint ran another prompt than the one it was sent.
    """
    try:
        body = json.loads(content)
    except ValueError as error:
        raise BodyError(
            "not_json", f"the answer is not JSON ({error}): {content[:120]!r}", broken=True
        ) from error
    choice = _only_choice(body)
    shown = choice.get("prompt_token_ids")
    if shown is not None and list(shown) != list(prompt_ids):
        raise BodyError(
            "prompt_changed",
            f"sent a prompt of {len(prompt_ids)} tokens, the endpoint ran one of {len(shown)}: it must take "
            "token ids as they are (no truncation, no added tokens)",
        )
    logprobs = choice.get("logprobs")
    ids = _token_ids(choice, logprobs)
    if not ids or len(ids) > max_tokens:
        raise BodyError("schema", f"the answer has {len(ids)} tokens where 1 to {max_tokens} were asked for")
    return Generation(ids, _token_logprobs(logprobs, len(ids)))


def _only_choice(body: Any) -> dict[str, Any]:
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list):
        raise BodyError("schema", f"the answer has no list `choices`: {str(body)[:200]}")
    if len(choices) != 1 or not isinstance(choices[0], dict):
        raise BodyError("schema", f"the answer has {len(choices)} choices where one was asked for")
    return choices[0]


def _token_ids(choice: dict[str, Any], logprobs: Any) -> list[int]:
    ids: Any = choice.get("token_ids")
    if _is_list_of(ids, int):
        return list(ids)
    spelled: Any = logprobs.get("tokens") if isinstance(logprobs, dict) else None
    if _is_list_of(spelled, str) and spelled and all(_is_spelled_id(text) for text in spelled):
        return [int(text.removeprefix(_ID_PREFIX)) for text in spelled]
    raise BodyError(
        "no_token_ids",
        "the answer holds no token ids: the endpoint must honour `return_token_ids` or "
        "`return_tokens_as_token_ids` (vLLM does); text alone cannot be turned back into what was generated",
    )


def _token_logprobs(logprobs: Any, count: int) -> list[float]:
    values: Any = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
    if not _is_list_of(values, (int, float)) or len(values) != count or not all(map(isfinite, values)):
        raise BodyError("schema", f"`logprobs.token_logprobs` does not hold {count} numbers, one per token")
    return [float(value) for value in values]


def _is_list_of(value: Any, kind: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, kind) and not isinstance(item, bool) for item in value
    )


def _is_spelled_id(text: str) -> bool:
    return text.startswith(_ID_PREFIX) and text.removeprefix(_ID_PREFIX).isdigit()
