"""`/v1/chat/completions`: the request for a message, and the body of its answer as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval.body import BodyError, Usage, read_choice
from mempo.messages import Conversation, Message


@dataclass(frozen=True)
class ChatReply:
    """What the model said, without a forced prefix; `truncated` if `max_tokens` cut it."""

    text: str
    truncated: bool
    usage: Usage | None


def chat_request(
    conversation: Conversation, *, max_tokens: int, chat_template_kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The request's own fields; model, temperature and seed are added where it is sent.

    Options of the chat template go along under the name by which vLLM and SGLang take them, if there are any: other
    endpoints refuse a field that they do not know.

    What stands open after the last message is continued, by vLLM's `continue_final_message`, and echoed, so that the
    answer shows whether it was.
    """
    options = {"chat_template_kwargs": dict(chat_template_kwargs)} if chat_template_kwargs else {}
    if not conversation.opened:
        return {"messages": conversation.messages, "max_tokens": max_tokens, **options}
    opened: Message = {"role": "assistant", "content": conversation.opened}
    return {
        "messages": [*conversation.messages, opened],
        "max_tokens": max_tokens,
        "continue_final_message": True,
        "add_generation_prompt": False,
        "echo": True,
        **options,
    }


def parse_chat(content: bytes, *, opened: str) -> ChatReply:
    """Reads the message; a model that ended its turn at once said "", which is a reply.

    Raises:
        BodyError: what `read_choice` raises, `tool_calls` for a message whose text a server's tool parser took away,
            `refusal` for a provider's own words in place of the model's, `no_text` for a message whose text is missing or
            went elsewhere, `prefix_ignored` if `opened` was not continued.
    """
    choice, usage = read_choice(content)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise BodyError("schema", f"the choice has no `message`: {str(choice)[:200]}")
    reason = choice.get("finish_reason")
    if message.get("tool_calls") or message.get("function_call"):
        raise BodyError(
            "tool_calls",
            "the endpoint read a tool call out of the reply, so its text is not what the model said: turn the server's tool "
            "parser off (vLLM: no --enable-auto-tool-choice); none of ours is declared to it",
        )
    text, thought = message.get("content"), message.get("reasoning") or message.get("reasoning_content")
    refusal = message.get("refusal")
    if isinstance(text, list):
        thought = thought or len(_texts(text)) < len(text)
        text = "".join(_texts(text))
    if refusal and not text:
        raise BodyError("refusal", f"the provider refused to answer: {str(refusal)[:200]!r}")
    if not isinstance(text, str) or (not text.strip() and (reason != "stop" or thought)):
        raise BodyError(
            "no_text",
            f"the message has no text (finish_reason {reason!r}): a server's reasoning parser moves it elsewhere, turn "
            "that off; a hidden thought may use up the tokens, stop it (--chat-template-option enable_thinking=false) or "
            "allow more (`mempo eval run`: --max-response-tokens; `mempo eval reading`: another --setting; `mempo read`: "
            "--memory, --answer)",
        )
    if not text.startswith(opened):
        raise BodyError("prefix_ignored", f"the endpoint did not continue {opened!r}, it said {text[:80]!r}")
    return ChatReply(text.removeprefix(opened), reason == "length", usage)


def _texts(parts: list[Any]) -> list[str]:
    """The texts of a message that comes in parts (Mistral's do); thoughts and the like are other parts."""
    found = [
        part.get("text")
        for part in parts
        if isinstance(part, dict) and part.get("type") in ("text", "output_text")
    ]
    return [text for text in found if isinstance(text, str)]
