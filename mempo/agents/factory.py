"""From the `agent.*` part of a config to an agent; training and evaluation build theirs here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from mempo.agents.base import Agent, Tool
from mempo.agents.chunk_memory import ChunkMemoryAgent
from mempo.agents.one_request import OneRequestAgent
from mempo.agents.rag import RagAgent
from mempo.agents.react import ReactAgent
from mempo.agents.self_memory import SelfMemoryAgent
from mempo.prompts import reading_prompt
from mempo.task import Limits
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode

Builder = Callable[[Mapping[str, Any], ChatTokens, Tool | None], Agent]


def build_agent(settings: Mapping[str, Any], tokens: ChatTokens, search: Tool | None) -> Agent:
    """The agent that `settings["name"]` names: a name from `AGENTS`, or `module:function` for an agent of your own.

    Args:
        settings: the `agent.*` config.
        search: the search tool; an agent that searches refuses None.

    Raises:
        ValueError: for an unknown name or a missing key, naming it.
    """
    name = str(_setting(settings, "name"))
    builder = AGENTS[name] if name in AGENTS else _imported(name)
    return builder(settings, tokens, search)


def limits_from(settings: Mapping[str, Any]) -> Limits:
    """The bounds of one rollout from the `agent.*` config."""
    return Limits(
        max_turns=int(_setting(settings, "max_turns")),
        max_response_tokens=int(_setting(settings, "max_response_tokens")),
        max_observation_tokens=int(_setting(settings, "max_observation_tokens")),
        max_context_tokens=int(_setting(settings, "max_context_tokens")),
    )


def _self_memory(settings: Mapping[str, Any], tokens: ChatTokens, search: Tool | None) -> Agent:
    forced = bool(_setting(settings, "force_memory_prefix"))
    return SelfMemoryAgent(
        tokens, _needed(search, "self_memory"), **_common(settings), force_memory_prefix=forced
    )


def _without_memory(name: str, agent: type[ReactAgent] | type[RagAgent]) -> Builder:
    def build(settings: Mapping[str, Any], tokens: ChatTokens, search: Tool | None) -> Agent:
        if _setting(settings, "force_memory_prefix"):
            raise ValueError(f"agent {name} has no memory to open: set agent.force_memory_prefix to false")
        return agent(tokens, _needed(search, name), **_common(settings))

    return build


def _chunk_memory(settings: Mapping[str, Any], tokens: ChatTokens, search: Tool | None) -> Agent:
    if not ContextMode.parse(str(_setting(settings, "context"))).rewritten:
        raise ValueError(
            f"agent.context is {settings['context']!r}: chunk_memory writes every prompt anew; set rewritten"
        )
    return ChunkMemoryAgent(
        tokens,
        prompt=reading_prompt(str(_setting(settings, "prompt"))),
        limits=limits_from(settings),
        max_question_tokens=int(_setting(settings, "max_question_tokens")),
        max_answer_tokens=int(_setting(settings, "max_answer_tokens")),
        verifier=str(_setting(settings, "verifier")),
    )


def _one_request(name: str) -> Builder:
    def build(settings: Mapping[str, Any], tokens: ChatTokens, search: Tool | None) -> Agent:
        verifier = str(_setting(settings, "verifier"))
        return OneRequestAgent(tokens, name=name, limits=limits_from(settings), verifier=verifier)

    return build


def _common(settings: Mapping[str, Any]) -> dict[str, Any]:
    context = ContextMode.parse(str(_setting(settings, "context")))
    if context.rewritten:
        raise ValueError(
            "agent.context is rewritten: agents that search show their turns; set history or window:k"
        )
    return {
        "prompt": str(_setting(settings, "prompt")),
        "context": context,
        "limits": limits_from(settings),
    }


def _needed(search: Tool | None, name: str) -> Tool:
    if search is None:
        raise ValueError(f"agent {name} searches, but there is no search server: set search.url")
    return search


def _imported(name: str) -> Builder:
    module, _, function = name.partition(":")
    if not module or not function:
        raise ValueError(f"agent.name is {name!r}; known are {', '.join(AGENTS)}, or write module:function")
    try:
        builder: Builder = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"agent.name is {name!r}, which cannot be imported: {error}") from error
    return builder


def _setting(settings: Mapping[str, Any], key: str) -> Any:
    value = settings.get(key)
    if value is None:
        raise ValueError(f"agent.{key} is not set")
    return value


AGENTS: dict[str, Builder] = {
    "self_memory": _self_memory,
    "react": _without_memory("react", ReactAgent),
    "rag": _without_memory("rag", RagAgent),
    "chunk_memory": _chunk_memory,
    "full_context": _one_request("full_context"),
    "closed_book": _one_request("closed_book"),
}
