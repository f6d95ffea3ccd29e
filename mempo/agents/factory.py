"""From the `agent.*` part of a config to an agent; training and evaluation build theirs here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mempo.agents.base import Agent, Tool
from mempo.agents.chunk_memory import ChunkMemoryAgent
from mempo.agents.one_request import OneRequestAgent
from mempo.agents.rag import RagAgent
from mempo.agents.react import ReactAgent
from mempo.agents.self_memory import SelfMemoryAgent
from mempo.imported import imported
from mempo.prompts import reading_prompt
from mempo.task import Limits
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode
from mempo.verifiers import check_verifier

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
    builder: Builder = AGENTS[name] if name in AGENTS else imported("agent.name", name, AGENTS)
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
    agent = SelfMemoryAgent(
        tokens, _needed(search, "self_memory"), **_common(settings), force_memory_prefix=forced
    )
    return _verified(agent, settings)


def _without_memory(name: str, agent: type[ReactAgent] | type[RagAgent]) -> Builder:
    def build(settings: Mapping[str, Any], tokens: ChatTokens, search: Tool | None) -> Agent:
        if _setting(settings, "force_memory_prefix"):
            raise ValueError(f"agent {name} has no memory to open: set agent.force_memory_prefix to false")
        return _verified(agent(tokens, _needed(search, name), **_common(settings)), settings)

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


def _verified(agent: Agent, settings: Mapping[str, Any]) -> Agent:
    """An agent that searches, with the verifier of `agent.verifier` in place of its own if the key is set."""
    agent.verifier = str(settings.get("verifier") or agent.verifier)
    check_verifier(agent.verifier)
    return agent


def _needed(search: Tool | None, name: str) -> Tool:
    if search is None:
        raise ValueError(f"agent {name} searches, but there is no search server: set search.url")
    return search


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
