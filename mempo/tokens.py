"""Chat turns as token ids: the only place where text becomes tokens, once, when it enters."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from mempo.outside_text import well_formed
from mempo.pieces import Spelling, TokenPieces
from mempo.prompts import CUT_MARK
from mempo.stop_ids import stop_ids

logger = logging.getLogger(__name__)

_SLOTS = (
    "\ue000",
    "\ue001",
    "\ue002",
)  # private-use characters: stand for outside text while a template is rendered


class ChatTokens:
    """A Hugging Face fast byte-level BPE tokenizer with a chat template, seen as pieces of a conversation.

    Outside text (a question, a page, a gold answer) is encoded with no added token matched at all, so `<|im_end|>` or
    `</tool_response>` inside it stays text. For text without added tokens, a conversation put together here equals
    one full render of the chat template, token by token.

    Args:
        model: folder of the model that writes, where it is not the one that the tokenizer was loaded from.

    Attributes:
        chat_template_kwargs: options of the template that every render gets, e.g. `enable_thinking` (Qwen3).
        turn_end_id: what the template closes an assistant turn with.
        stop_token_ids: at which a turn has ended, that one among them (`mempo.stop_ids`).
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        model: str | Path | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = tokenizer
        self.pieces = TokenPieces(tokenizer)
        self.chat_template_kwargs = dict(chat_template_kwargs or {})
        spec = json.loads(tokenizer.backend_tokenizer.to_str())
        stripping = [
            t["content"] for t in spec["added_tokens"] if t["lstrip"] or t["rstrip"] or t["single_word"]
        ]
        if stripping:
            raise ValueError(f"added tokens {stripping} swallow the text around them: spans cannot be exact")
        self.added = {token["content"]: int(token["id"]) for token in spec["added_tokens"]}
        self._inert = Tokenizer.from_str(json.dumps({**spec, "added_tokens": [], "post_processor": None}))
        self._inert.no_truncation()
        self._added_pattern = re.compile(
            "(" + "|".join(re.escape(text) for text in sorted(self.added, key=len, reverse=True)) + ")"
        )
        bare = self.render([{"role": "user", "content": _SLOTS[0]}], generation=False)
        opened = self.render([{"role": "user", "content": _SLOTS[0]}], generation=True)
        if not opened.startswith(bare) or opened == bare:
            raise ValueError(
                "the chat template's generation prompt does not follow the conversation before it"
            )
        self.generation_prompt_ids = self._encode(opened[len(bare) :], {})
        end = self._tool_turn.partition(_SLOTS[1])[0]
        opening = self._added_pattern.match(end)
        if opening is None:
            raise ValueError(
                "the chat template closes an assistant turn without an added token such as <|im_end|>"
            )
        self.turn_end_id = self.added[opening.group()]
        self.stop_token_ids = stop_ids(tokenizer, self.turn_end_id, model)
        # What opens and closes messages; tags that are added tokens are not among it.
        self.frame_ids = {self.added[text] for text in self._added_pattern.findall(bare)} | {
            *self.stop_token_ids
        }
        if self.drops_thinking:
            logger.warning(
                "the chat template drops earlier <think> blocks; prompts here keep the ids as generated"
            )

    @cached_property
    def drops_thinking(self) -> bool:
        """Whether a full render would lose the thoughts of earlier turns (Qwen3's template does)."""
        thought = f"<think>\n{_SLOTS[1]}\n</think>\n\n"
        answered = {"role": "assistant", "content": thought + "x"}
        question = {"role": "user", "content": "y"}
        return _SLOTS[1] not in self.render([question, answered, question], generation=False)

    @cached_property
    def _tool_turn(self) -> str:
        """What the template puts after an assistant's content: the end of the turn and a tool message."""
        talk = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": _SLOTS[0]},
            {"role": "tool", "content": _SLOTS[1]},
        ]
        _, found, rest = self.render(talk, generation=False).partition(_SLOTS[0])
        if not found or _SLOTS[1] not in rest:
            raise ValueError("the chat template does not show tool messages: search results would be lost")
        return rest

    def first_prompt(self, system: str | None, question: str) -> list[int]:
        """Ids of system prompt and question, without the generation prompt."""
        messages = [] if system is None else [{"role": "system", "content": system}]
        messages.append({"role": "user", "content": _SLOTS[0]})
        return self._encode(self.render(messages, generation=False), {_SLOTS[0]: question})

    def ended(self, written: Sequence[int]) -> bool:
        """Whether the model ended its turn itself; at any of the stop ids, not only at the template's."""
        return bool(written) and written[-1] in self.stop_token_ids

    def observation(self, text: str, *, ended: bool) -> list[int]:
        """Ids that follow an assistant turn: its end (unless the model `ended` it itself) and the tool message.

        A turn that stopped at another id than the template's end (`<|endoftext|>` instead of `<|im_end|>`) has not `ended` in
        this sense: what was generated stays as it is, and the template's end follows, so that the message is closed.
        """
        ids = self._encode(self._tool_turn, {_SLOTS[1]: text})
        return ids[1:] if ended else ids

    def message_around(self, texts: Sequence[str]) -> list[list[int]]:
        """One user message of ours with gaps for ids, and the generation prompt after it.

        Returns:
            the ids of each part around the gaps between `texts`; what goes into a gap is put there as ids, so that it is
            never encoded twice and cannot merge with our words.

        Raises:
            ValueError: if the chat template does not show a message word for word.
        """
        rendered = self.render([{"role": "user", "content": _SLOTS[0].join(texts)}], generation=True)
        parts = rendered.split(_SLOTS[0])
        if len(parts) != len(texts) or any(
            text.strip() not in part for text, part in zip(texts, parts, strict=True)
        ):
            raise ValueError("the chat template does not show a user message word for word")
        return [self._encode(part, {}) for part in parts]

    def chunks(self, text: str, max_tokens: int) -> list[list[int]]:
        """Outside text as pieces of at most `max_tokens` tokens that together are its ids; no character is split.

        Raises:
            ValueError: if `max_tokens` is below 4, the most that one character may take.
        """
        if max_tokens < 4:
            raise ValueError(f"a chunk of {max_tokens} tokens may not hold one character: allow at least 4")
        # As a batch: only so does the tokenizer let other threads run meanwhile, seconds long for a long document.
        ids = self._inert.encode_batch_fast([text], add_special_tokens=False)[0].ids
        found, start = [], 0
        while start < len(ids):
            end = min(start + max_tokens, len(ids))
            while end < len(ids) and not self._opens_character(ids[end]):
                end -= 1
            found.append(ids[start:end])
            start = end
        return found

    def _opens_character(self, token: int) -> bool:
        return self.pieces.token_bytes(token)[0] & 0xC0 != 0x80  # 10xxxxxx goes on with a character in UTF-8

    def encode_inert(self, text: str) -> list[int]:
        """Outside text as ids; no added token can come out."""
        return list(self._inert.encode(text, add_special_tokens=False).ids)

    def encode_own(self, text: str) -> list[int]:
        """Our own text as ids; added tokens are matched."""
        return self._encode(text, {})

    def encode_reply(self, text: str) -> list[int]:
        """A model's turn, known as text only, as the ids that it will have generated.

        Tags that are added tokens are matched; what opens or closes a message stays text, for a reply can do neither.
        """
        ids: list[int] = []
        plain = ""
        for part in self._added_pattern.split(text):
            token = self.added.get(part)
            if token is None or token in self.frame_ids:
                plain += part
                continue
            ids += [*self.encode_inert(plain), token]
            plain = ""
        return ids + self.encode_inert(plain)

    def encode_around(
        self, before: str, inner: list[str], after: str, separator: str
    ) -> tuple[list[int], list[int]]:
        """Our text around outside parts.

        Returns:
            ids of `before + separator.join(inner) + after`, and for each the index of the part whose characters it
            covers, or -1. A token that covers a part and what is beside it belongs to the part; two parts, to the first.
        """
        ids, owners = self._encode_owned(before + _SLOTS[0] + after, {_SLOTS[0]: separator.join(inner)})
        bounds, offset = [], 0
        for part in inner:
            bounds.append((offset, offset + len(part)))
            offset += len(part) + len(separator)
        return ids, [_owner(span, bounds) for span in owners]

    def decode(self, ids: list[int]) -> str:
        """Readable text of ids, special tokens included."""
        return Spelling.readable(self.pieces.spell(ids).text)

    def cut(self, text: str, max_tokens: int) -> tuple[str, bool]:
        """Text of at most `max_tokens` inert tokens, cut at a sentence or word border and marked as cut; `well_formed`."""
        text = well_formed(text)
        offsets = self._inert.encode(text, add_special_tokens=False).offsets
        if len(offsets) <= max_tokens:
            return text, False
        mark = len(self.encode_inert(CUT_MARK))
        # A border can merge with the mark into other tokens, so the first try may be one token too long.
        for room in range(max_tokens - mark, 0, -1):
            shorter = _at_border(text[: offsets[room - 1][1]]) + CUT_MARK
            if len(self.encode_inert(shorter)) <= max_tokens:
                return shorter, True
        return "", True

    def render(self, messages: list[dict[str, str]], *, generation: bool) -> str:
        """The chat template's text of `messages`, with a generation prompt or without."""
        return str(
            self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=generation, **self.chat_template_kwargs
            )
        )

    def _encode(self, structure: str, outside: Mapping[str, str]) -> list[int]:
        return self._encode_owned(structure, outside)[0]

    def _encode_owned(
        self, structure: str, outside: Mapping[str, str]
    ) -> tuple[list[int], list[tuple[int, int] | None]]:
        """Ids of `structure` with its slots filled, and the character span of the filling each token touches."""
        ids: list[int] = []
        spans: list[tuple[int, int] | None] = []
        for segment in self._added_pattern.split(structure):
            if segment in self.added:
                ids.append(self.added[segment])
                spans.append(None)
                continue
            slot = next((mark for mark in outside if mark in segment), None)
            start = segment.index(slot) if slot else 0
            filling = outside[slot] if slot else ""
            text = segment.replace(slot, filling, 1) if slot else segment
            encoding = self._inert.encode(text, add_special_tokens=False)
            ids += encoding.ids
            for begin, end in encoding.offsets:
                low, high = max(begin, start) - start, min(end, start + len(filling)) - start
                spans.append((low, high) if slot and low < high else None)
        return ids, spans


def _owner(span: tuple[int, int] | None, bounds: list[tuple[int, int]]) -> int:
    if span is None:
        return -1
    for index, (start, end) in enumerate(bounds):
        if span[0] < end and span[1] > start:
            return index
    return -1


def _at_border(text: str) -> str:
    """`text` up to its last sentence end in its second half, else up to its last space, else as it is."""
    ends = [match.end(1) for match in re.finditer(r"([.!?。！？]|\n)(?=\s|$)", text)]
    if ends and ends[-1] >= len(text) // 2:
        return text[: ends[-1]].rstrip()
    space = text.rfind(" ")
    return text[:space].rstrip() if space > 0 else text
