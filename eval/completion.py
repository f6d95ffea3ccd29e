"""`/v1/completions`: the request for token ids, and the body of its answer as a `Generation`."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from eval.body import BodyError, Usage, is_list_of, read_choice
from mempo.agents.base import Generation

ID_PREFIX = "token_id:"  # how vLLM spells a token when asked for `return_tokens_as_token_ids`


def completion_request(
    prompt_ids: Sequence[int], *, max_tokens: int, stop_token_ids: Sequence[int]
) -> dict[str, Any]:
    """The request's own fields; model, temperature and seed are added where it is sent."""
    return {
        "prompt": list(prompt_ids),
        "max_tokens": max_tokens,
        "stop_token_ids": list(stop_token_ids),
        "logprobs": 1,  # 0 means none to some servers
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,  # for servers that know only this one; also saves decoding
        "add_special_tokens": False,
    }


def parse_completion(
    content: bytes, *, prompt_ids: Sequence[int], max_tokens: int
) -> tuple[Generation, Usage | None]:
    """Reads the generated token ids and their log-probs (natural log, one per token).

    Raises:
        BodyError: `not_json` for a torn body, `schema` for one of another shape, `no_token_ids` for an endpoint that
            returns text only, `prompt_changed` if the endpoint ran another prompt than the one it was sent.
    """
    choice, usage = read_choice(content)
    check_prompt(choice, prompt_ids)
    logprobs = choice.get("logprobs")
    ids = _token_ids(choice, logprobs)
    if not ids or len(ids) > max_tokens:
        raise BodyError("schema", f"the answer has {len(ids)} tokens where 1 to {max_tokens} were asked for")
    return Generation(ids, _token_logprobs(logprobs, len(ids))), usage


def check_prompt(choice: dict[str, Any], prompt_ids: Sequence[int]) -> None:
    """Raises BodyError `prompt_changed` if the answer shows another prompt than the one that was sent."""
    shown = choice.get("prompt_token_ids")
    if shown is not None and list(shown) != list(prompt_ids):
        raise BodyError(
            "prompt_changed",
            f"sent a prompt of {len(prompt_ids)} tokens, the endpoint ran one of {len(shown)}: it must take "
            "token ids as they are (no truncation, no added tokens)",
        )


def spelled_ids(logprobs: Any) -> list[int] | None:
    """The ids in `logprobs.tokens`, where all of them are spelled as ids."""
    spelled = logprobs.get("tokens") if isinstance(logprobs, dict) else None
    if not is_list_of(spelled, str) or not spelled or not all(map(_is_spelled_id, spelled)):
        return None
    return [int(text.removeprefix(ID_PREFIX)) for text in spelled]


def _token_ids(choice: dict[str, Any], logprobs: Any) -> list[int]:
    ids: Any = choice.get("token_ids")
    if is_list_of(ids, int):
        return list(ids)
    spelled = spelled_ids(logprobs)
    if spelled is not None:
        return spelled
    raise BodyError(
        "no_token_ids",
        "the answer holds no token ids: the endpoint must honour `return_token_ids` or "
        "`return_tokens_as_token_ids` (vLLM does); text alone cannot be turned back into what was generated",
    )


def _token_logprobs(logprobs: Any, count: int) -> list[float]:
    values: Any = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
    if not is_list_of(values, (int, float)) or len(values) != count or not all(map(isfinite, values)):
        raise BodyError("schema", f"`logprobs.token_logprobs` does not hold {count} numbers, one per token")
    return [float(value) for value in values]


def _is_spelled_id(text: str) -> bool:
    return text.startswith(ID_PREFIX) and text.removeprefix(ID_PREFIX).isdigit()
