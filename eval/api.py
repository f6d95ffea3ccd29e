"""Which API of an endpoint an evaluation uses, decided once, before the first question."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eval.chat import chat_request, parse_chat
from eval.completion import completion_request, parse_completion
from eval.endpoint import Endpoint
from eval.errors import EvalError
from eval.language_model import ChatModel, CompletionsModel, EndpointModel
from eval.sample_log import REMARKS, SETTINGS
from mempo.agents.base import RolloutError
from mempo.messages import Conversation, MessageReader
from mempo.tokens import ChatTokens

APIS = ("auto", "completions", "chat")
# How an endpoint says that it has no completions of token ids. Any other trouble may pass, and decides nothing.
_REFUSALS = ("status_400", "status_404", "status_405", "status_410", "status_415", "status_422", "status_501")
_UNREADABLE = ("schema", "no_token_ids", "prompt_changed")


@dataclass(frozen=True)
class Api:
    """What ran: `completions` or `chat`. `why` is for a reader: a remark among the settings, which makes no difference."""

    ran: str
    why: str


TOKEN_IDS = Api("completions", "the endpoint takes token ids and returns them")


async def choose_api(endpoint: Endpoint, asked: str, tokens: ChatTokens) -> Api:
    """`auto` tries a completion of one token: token ids both ways if it works, else messages.

    Raises:
        EvalError: for an unknown name, or if the endpoint's trouble does not say which it is.
    """
    if asked not in APIS:
        raise EvalError(f"--api is {asked!r}; write {', '.join(APIS)}")
    if asked != "auto":
        return TOKEN_IDS if asked == "completions" else Api("chat", "asked for with --api chat")
    prompt = tokens.encode_own("Hello")
    try:
        await endpoint.ask(
            "completions",
            completion_request(prompt, max_tokens=1, stop_token_ids=tokens.stop_token_ids),
            lambda content: parse_completion(content, prompt_ids=prompt, max_tokens=1),
        )
    except RolloutError as error:
        if error.cause in (*_REFUSALS, *_UNREADABLE):
            return Api("chat", f"{error.cause}: {error}")
        raise EvalError(
            f"whether the endpoint takes token ids could not be found out ({error}); try again, or say --api"
        ) from error
    return TOKEN_IDS


async def check_continuation(endpoint: Endpoint, tokens: ChatTokens) -> None:
    """Raises EvalError unless the endpoint's chat continues a message that an assistant began (vLLM's does)."""
    opened = secrets.token_hex(8)  # nothing that a model would say by itself
    conversation = Conversation([{"role": "user", "content": "Hello"}], opened)
    try:
        await endpoint.ask(
            "chat/completions",
            chat_request(conversation, max_tokens=1, chat_template_kwargs=tokens.chat_template_kwargs),
            lambda content: parse_chat(content, opened=opened),
        )
    except RolloutError as error:
        raise EvalError(
            "--force-memory-prefix over chat messages needs an endpoint that continues the last message (vLLM's "
            f"continue_final_message), and this one does not ({error.cause}): leave the option out, or use --api "
            "completions"
        ) from error


def recorded_api(folder: Path) -> Api | None:
    """What an evaluation in this folder was begun with; it goes on with that, and asks the endpoint nothing."""
    try:
        settings = json.loads((folder / SETTINGS).read_text())
        return Api(str(settings["api"]), str(settings[REMARKS]["api"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def model_maker(api: str, endpoint: Endpoint, tokens: ChatTokens) -> Callable[[str], EndpointModel]:
    """A question's id → its language model.

    Raises:
        EvalError: for a chat template that cannot be shown as messages.
    """
    if api == "completions":
        return lambda question_id: CompletionsModel(endpoint, tokens, question_id=question_id)
    try:
        reader = MessageReader(tokens)
    except ValueError as error:
        raise EvalError(f"--api chat: {error}") from error
    return lambda question_id: ChatModel(endpoint, tokens, reader, question_id=question_id)
