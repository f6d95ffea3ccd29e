"""`/v1/chat/completions`: the request for a message, and the body of its answer as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval.body import BodyError, Usage, read_choice
from mempo.messages import Conversation, Message

# An answer that ends so holds no turn, whatever text it has.
_NO_TURN = ("content_filter", "tool_calls", "function_call")


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
        BodyError: `not_json` for a torn body, `schema` for one of another shape, `no_text` for a message whose text is
            missing or went elsewhere, `finish_<reason>` for one that the endpoint held back, `prefix_ignored` if `opened`
            was not continued.
    """
    choice, usage = read_choice(content)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise BodyError("schema", f"the choice has no `message`: {str(choice)[:200]}")
    reason = choice.get("finish_reason")
    if reason in _NO_TURN:
        raise BodyError(f"finish_{reason}", f"the endpoint ended the message with {reason!r}")
    text = message.get("content")
    thought = message.get("reasoning") or message.get("reasoning_content")
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
