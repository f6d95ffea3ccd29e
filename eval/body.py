"""What every answer of an OpenAI-compatible API has in common: JSON, one choice, and the API's own count of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mempo.agents.base import RolloutError
from mempo.outside_text import load_json

# An answer that ends so holds no turn, whatever text it has.
_NO_TURN = ("content_filter", "tool_calls", "function_call")
# The server gave up in the middle (vLLM and SGLang: abort; routers: error), which another attempt may mend.
_BROKEN_OFF = ("abort", "error")


class BodyError(RolloutError):
    """The answer is not what was asked for. `broken` marks a torn transfer, which another attempt may mend."""

    def __init__(self, cause: str, message: str, *, broken: bool = False) -> None:
        super().__init__(cause, message)
        self.broken = broken


@dataclass(frozen=True)
class Usage:
    """Tokens as the API counts (and bills) them; what we count ourselves is `eval.usage`."""

    prompt: int
    completion: int


def read_choice(content: bytes) -> tuple[dict[str, Any], Usage | None]:
    """The one choice of an answer, and its usage where it tells one.

    Raises:
        BodyError: `not_json` for a torn body, `schema` for one of another shape, `finish_<reason>` for an answer that the
            endpoint held back or broke off.
    """
    try:
        body = load_json(content)
    except ValueError as error:
        raise BodyError(
            "not_json", f"the answer is not JSON ({error}): {content[:120]!r}", broken=True
        ) from error
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list):
        raise BodyError("schema", f"the answer has no list `choices`: {str(body)[:200]}")
    if len(choices) != 1 or not isinstance(choices[0], dict):
        raise BodyError("schema", f"the answer has {len(choices)} choices where one was asked for")
    reason = choices[0].get("finish_reason")
    if reason in (*_NO_TURN, *_BROKEN_OFF):
        raise BodyError(
            f"finish_{reason}", f"the endpoint ended the answer with {reason!r}", broken=reason in _BROKEN_OFF
        )
    return choices[0], _usage(body.get("usage"))


def is_list_of(value: Any, kind: Any) -> bool:
    """Whether `value` is a list of `kind`; truth values are no numbers."""
    return isinstance(value, list) and all(
        isinstance(item, kind) and not isinstance(item, bool) for item in value
    )


def _usage(told: Any) -> Usage | None:
    if not isinstance(told, dict):
        return None
    prompt, completion = told.get("prompt_tokens"), told.get("completion_tokens")
    return Usage(prompt, completion) if isinstance(prompt, int) and isinstance(completion, int) else None
