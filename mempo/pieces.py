"""Generated tokens as bytes: where each token lies in the text, without decoding and re-encoding anything."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any


def _byte_of_char() -> dict[str, int]:
    """GPT-2's printable alphabet for byte-level BPE, inverted (Radford et al. 2019, `bytes_to_unicode`)."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    table.update({chr(256 + offset): byte for offset, byte in enumerate(others)})
    return table


_BYTE_OF_CHAR = _byte_of_char()


class TokenPieces:
    """The bytes behind each token id of a byte-level BPE tokenizer (Qwen, Llama 3, GPT and their kin)."""

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None or '"ByteLevel"' not in json.dumps(json.loads(backend.to_str())["decoder"]):
            raise ValueError(
                f"tokenizer {tokenizer.name_or_path!r} is not a fast byte-level BPE: token spans cannot be exact. "
                "Use a Qwen, Llama 3 or GPT style tokenizer."
            )
        self._tokenizer = tokenizer

    @cached_property
    def _added(self) -> dict[int, bytes]:
        return {int(i): str(t.content).encode() for i, t in self._tokenizer.added_tokens_decoder.items()}

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token; empty for ids that the model's padded vocabulary has beyond the tokenizer's."""
        if token_id in self._added:
            return self._added[token_id]
        piece = self._tokenizer.convert_ids_to_tokens(int(token_id))
        return b"" if piece is None else bytes(_BYTE_OF_CHAR[char] for char in piece)

    def spell(self, ids: list[int]) -> Spelling:
        """The text of `ids` with the place of each token in it."""
        ends, text = [], bytearray()
        for token_id in ids:
            text += self.token_bytes(token_id)
            ends.append(len(text))
        return Spelling(bytes(text), ends)


class Spelling:
    """Bytes of a token sequence. `text` is one character per byte, so that indices into it are byte offsets."""

    def __init__(self, raw: bytes, ends: list[int]) -> None:
        self._ends = ends
        self.text = raw.decode("latin-1")

    @staticmethod
    def readable(part: str) -> str:
        """A part of `text` as real characters; bytes that are not UTF-8 become the replacement character."""
        return part.encode("latin-1").decode("utf-8", errors="replace")

    def token_span(self, start: int, end: int) -> tuple[int, int]:
        """Half-open token span that covers bytes `start` to `end`; a token on the border belongs to it whole."""
        first = next(index for index, stop in enumerate(self._ends) if stop > start)
        last = next(index for index, stop in enumerate(self._ends) if stop >= end)
        return first, last + 1
