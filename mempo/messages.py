"""A prompt's ids back as chat messages, for endpoints that take no token ids.

Read by the frames that the chat template puts around contents, never by looking for tags in them: outside text holds no
added token, so what looks like a frame inside a page is no frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mempo.prompts import format_tool_response, format_turn
from mempo.tokens import ChatTokens

_SYSTEM, _USER, _SAID, _SEEN = "\ue000", "\ue001", "\ue002", "\ue003"  # stand for contents in a render
# What makes the template of a reasoning model (Qwen3) show a turn as it is. The template reads the second; vLLM takes the
# first and hands it on as both.
_NO_REASONING = {"reasoning": "", "reasoning_content": ""}
_BYTES = "[\x00-\xff]*"  # text without an added token
_FIRST_MARK = 0x100  # characters from here on stand for added tokens, those below for bytes

Message = dict[str, str]


@dataclass(frozen=True)
class Conversation:
    """What a prompt shows.

    Attributes:
        messages: system, user, and for each turn shown an `assistant` message and a `user` message with the result. An
            assistant's message has `reasoning` and `reasoning_content` (both empty) besides, where the template would
            otherwise take the turn apart and lose its memory.
        opened: what stands after the last generation prompt: the forced prefix, or nothing.
    """

    messages: list[Message]
    opened: str


class MessageReader:
    """The inverse of what `ChatTokens` puts together.

    Results go into user messages between `<tool_response>` tags: a `tool` message is refused by endpoints that saw no
    tool call before it, and Qwen's template writes it in this very way.

    Raises:
        ValueError: for a chat template that does not show messages word for word.
    """

    def __init__(self, tokens: ChatTokens) -> None:
        self._tokens = tokens
        self._besides = _besides(tokens)
        self._added = _any_of(tokens.added)
        self._frames = _any_of([text for text, token in tokens.added.items() if token in tokens.frame_ids])
        self._marks = {token: chr(_FIRST_MARK + place) for place, token in enumerate(tokens.added.values())}
        self._names = {self._marks[token]: text for text, token in tokens.added.items()}
        self._stops = "".join(self._marks[token] for token in tokens.stop_token_ids if token in self._marks)
        first = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _USER}]
        alone = tokens.render(first[1:], generation=False).split(_USER)
        opened = tokens.render(first, generation=True)
        closed = tokens.render(first, generation=False)
        talk = [*first, {"role": "assistant", "content": _SAID}, {"role": "tool", "content": _SEEN}]
        after = tokens.render(talk, generation=False).partition(_SAID)[2]
        try:
            head, rest = closed.split(_SYSTEM)
            between, end = rest.split(_USER)
            turn_end, result_end = after.split(_SEEN)
        except ValueError:
            raise ValueError(
                "the chat template does not show system, user and tool messages word for word"
            ) from None
        opening = self._frame(opened[len(closed) :])
        self._first = re.compile(
            f"{self._frame(head)}(?P<system>.*?){self._frame(between)}(?P<user>.*?){self._frame(end)}",
            re.DOTALL,
        )
        # Without a system message of ours; a template that adds one of its own is read by the pattern above.
        self._alone = re.compile(f"{self._frame(alone[0])}(?P<user>.*?){self._frame(alone[-1])}", re.DOTALL)
        self._turn = re.compile(
            f"{opening}(?P<said>.*?){self._frame(turn_end)}(?P<seen>{_BYTES}){self._frame(result_end)}",
            re.DOTALL,
        )
        self._last = re.compile(f"{opening}(?P<opened>.*)", re.DOTALL)

    def read(self, prompt_ids: list[int]) -> Conversation:
        """The messages of a prompt that ends in a generation prompt, with a forced prefix after it or without.

        Raises:
            ValueError: if the prompt is not put together by `ChatTokens`.
        """
        text = self._spell(prompt_ids)
        first = self._first.match(text) or self._alone.match(text)
        if first is None:
            raise ValueError("the prompt does not begin with a user message of the chat template")
        system = first.groupdict().get("system")
        messages = [] if system is None else [{"role": "system", "content": self._readable(system)}]
        messages.append({"role": "user", "content": _broken(self._added, self._readable(first["user"]))})
        place = first.end()
        while turn := self._turn.match(text, place):
            said = self._readable(turn["said"].rstrip(self._stops))
            seen = _broken(self._added, self._readable(turn["seen"]))
            messages += [
                {"role": "assistant", "content": _broken(self._frames, said), **self._besides},
                {"role": "user", "content": format_tool_response(seen)},
            ]
            place = turn.end()
        last = self._last.fullmatch(text, place)
        if last is None:
            raise ValueError("the prompt does not end in a generation prompt of the chat template")
        return Conversation(messages, self._readable(last["opened"]))

    def _spell(self, ids: list[int]) -> str:
        pieces = self._tokens.pieces
        return "".join(self._marks.get(token) or pieces.token_bytes(token).decode("latin-1") for token in ids)

    def _frame(self, text: str) -> str:
        """A pattern for our own text, its added tokens as marks."""
        return re.escape(self._spell(self._tokens.encode_own(text)))

    def _readable(self, text: str) -> str:
        raw = b"".join(
            self._names[char].encode() if char in self._names else bytes([ord(char)]) for char in text
        )
        return raw.decode("utf-8", errors="replace")


def _besides(tokens: ChatTokens) -> Message:
    """What an assistant's message needs besides its content, so that the template shows the whole turn."""
    turn = format_turn("known", "next", search="query")
    for besides in (Message(), _NO_REASONING):
        talk = [
            {"role": "user", "content": "question"},
            {"role": "assistant", "content": turn, **besides},
            {"role": "user", "content": format_tool_response("page")},
        ]
        if turn in tokens.render(talk, generation=True):
            return besides
    raise ValueError(
        "the chat template takes earlier turns apart, so that messages cannot show their memory: use an endpoint that "
        "takes token ids (--api completions)"
    )


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)))


def _broken(added: re.Pattern[str], text: str) -> str:
    """`text` with a zero-width space in what a server would parse as an added token."""
    return added.sub(lambda found: f"{found[0][0]}\u200b{found[0][1:]}", text)
