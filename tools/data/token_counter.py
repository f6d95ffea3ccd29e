"""The length of a text in the tokens of a tokenizer."""

from __future__ import annotations

from collections.abc import Callable

from tools.data.records import DataError

CountTokens = Callable[[str], int]


def token_counter(tokenizer: str) -> CountTokens:
    """Counts the tokens of outside text, as an agent meets it: no added token is matched.

    Args:
        tokenizer: folder or name of a Hugging Face tokenizer.

    Raises:
        DataError: it cannot be loaded.
    """
    from transformers import AutoTokenizer

    from mempo.tokens import ChatTokens

    try:
        tokens = ChatTokens(AutoTokenizer.from_pretrained(tokenizer))
    except (OSError, ValueError) as error:
        raise DataError(f"--tokenizer {tokenizer}: cannot be loaded: {error}") from error
    return lambda text: len(tokens.encode_inert(text))
