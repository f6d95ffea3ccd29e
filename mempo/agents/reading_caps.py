"""How long a request of the chunk reader may become: a closed form of its caps, whatever the document."""

from __future__ import annotations

from mempo.task import Limits


def longest_request(
    limits: Limits,
    *,
    max_question_tokens: int,
    max_answer_tokens: int,
    reading: int = 0,
    answering: int = 0,
    no_memory: int = 0,
) -> int:
    """Tokens of prompt and response that no request exceeds.

    question + shown memory + max(words + chunk + memory, words + answer)

    Args:
        reading, answering: tokens of our own words in each of the two prompts; left out, what the caps come to alone.
        no_memory: tokens of what is shown in place of the first memory.
    """
    shown = max_question_tokens + max(limits.max_response_tokens, no_memory)
    read = reading + limits.max_observation_tokens + limits.max_response_tokens
    return shown + max(read, answering + max_answer_tokens)


def check_caps(limits: Limits, needed: int, besides: str = "") -> None:
    """Checks that a document can be read at all, and that no request leaves the window.

    Args:
        needed: `longest_request`.
        besides: what it leaves out, for the message.

    Raises:
        ValueError: naming the key.
    """
    if limits.max_turns < 2:
        raise ValueError(
            f"agent.max_turns is {limits.max_turns}: one chunk and the final turn are 2 at least"
        )
    if needed > limits.max_context_tokens:
        raise ValueError(
            f"agent.max_context_tokens is {limits.max_context_tokens}, but the caps allow a request of {needed} "
            f"tokens{besides}: raise it, or lower agent.max_observation_tokens (chunk), max_response_tokens (memory, shown "
            "and written), max_question_tokens or max_answer_tokens"
        )
