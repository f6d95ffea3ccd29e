"""From the `agent.*` part of a config to an agent; training and evaluation build theirs here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mempo.agents.base import Agent, Tool
from mempo.agents.chunk_memory import ChunkMemoryAgent
from mempo.agents.one_request import OneRequestAgent
from mempo.agents.rag import RagAgent
from mempo.agents.react import ReactAgent
from mempo.agents.reading_caps import check_caps, longest_request
from mempo.agents.self_memory import SelfMemoryAgent
from mempo.imported import imported
from mempo.prompts import reading_prompt, system_prompt
from mempo.task import Limits
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode
from mempo.verifiers import check_verifier

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class _Entry:
    """One entry of `agent.name`.

    Attributes:
        agent: makes it of tokens, the search tool if it `searches`, and `arguments`.
        arguments: reads them from the `agent.*` config. Raises ValueError for whatever is wrong with it, naming the key.
    """

    agent: Callable[..., Agent]
    arguments: Callable[[Settings], dict[str, Any]]
    searches: bool = False


def build_agent(settings: Settings, tokens: ChatTokens, search: Tool | None) -> Agent:
    """The agent that `settings["name"]` names: a name from `AGENTS`, or `module:function` for an agent of your own.

    Args:
        settings: the `agent.*` config.
        search: the search tool; an agent that searches refuses None.

    Raises:
        ValueError: for an unknown name or a missing key, naming it.
    """
    name = str(_setting(settings, "name"))
    if name not in AGENTS:
        own: Agent = imported("agent.name", name, AGENTS)(settings, tokens, search)
        return own
    entry = AGENTS[name]
    arguments = entry.arguments(settings)
    if not entry.searches:
        return entry.agent(tokens, **arguments)
    if search is None:
        raise ValueError(f"agent {name} searches, but there is no search server: set search.url")
    agent = entry.agent(tokens, search, **arguments)
    agent.verifier = str(settings.get("verifier") or agent.verifier)
    return agent


def check_settings(settings: Settings) -> None:
    """Looks through an `agent.*` config as far as that is possible without a tokenizer.

    An agent of your own reads its settings itself: of these only `agent.name` is looked at.

    Raises:
        ValueError: for an unknown name, a missing key, or caps that do not fit the window, naming the key.
    """
    name = str(_setting(settings, "name"))
    if name in AGENTS:
        AGENTS[name].arguments(settings)
    else:
        imported("agent.name", name, AGENTS)


def limits_from(settings: Settings) -> Limits:
    """The bounds of one rollout from the `agent.*` config. Raises ValueError where a full turn leaves no room for a prompt."""
    limits = Limits(
        max_turns=int(_setting(settings, "max_turns")),
        max_response_tokens=int(_setting(settings, "max_response_tokens")),
        max_observation_tokens=int(_setting(settings, "max_observation_tokens")),
        max_context_tokens=int(_setting(settings, "max_context_tokens")),
    )
    if limits.max_response_tokens >= limits.max_context_tokens:
        raise ValueError(
            f"agent.max_response_tokens is {limits.max_response_tokens}, but the window, agent.max_context_tokens, is "
            f"{limits.max_context_tokens}: no prompt fits besides; lower the one or raise the other"
        )
    return limits


def _searching(settings: Settings) -> dict[str, Any]:
    context = ContextMode.parse(str(_setting(settings, "context")))
    if context.rewritten:
        raise ValueError(
            "agent.context is rewritten: agents that search show their turns; set history or window:k"
        )
    if settings.get("verifier"):  # else their own
        check_verifier(str(settings["verifier"]))
    prompt = str(_setting(settings, "prompt"))
    system_prompt(prompt, str(settings["name"]))
    return {"prompt": prompt, "context": context, "limits": limits_from(settings)}


def _with_memory(settings: Settings) -> dict[str, Any]:
    forced = bool(_setting(settings, "force_memory_prefix"))
    return {**_searching(settings), "force_memory_prefix": forced}


def _without_memory(settings: Settings) -> dict[str, Any]:
    if _setting(settings, "force_memory_prefix"):
        raise ValueError(
            f"agent {settings['name']} has no memory to open: set agent.force_memory_prefix to false"
        )
    return _searching(settings)


def _reading(settings: Settings) -> dict[str, Any]:
    if not ContextMode.parse(str(_setting(settings, "context"))).rewritten:
        raise ValueError(
            f"agent.context is {settings['context']!r}: chunk_memory writes every prompt anew; set rewritten"
        )
    limits = limits_from(settings)
    caps = {name: int(_setting(settings, name)) for name in ("max_question_tokens", "max_answer_tokens")}
    check_caps(limits, longest_request(limits, **caps), " and the prompt's own words")
    prompt = reading_prompt(str(_setting(settings, "prompt")))
    return {"prompt": prompt, "limits": limits, **caps, "verifier": _verifier(settings)}


def _one_request(settings: Settings) -> dict[str, Any]:
    name = str(settings["name"])
    return {"name": name, "limits": limits_from(settings), "verifier": _verifier(settings)}


def _verifier(settings: Settings) -> str:
    name = str(_setting(settings, "verifier"))
    check_verifier(name)
    return name


def _setting(settings: Settings, key: str) -> Any:
    value = settings.get(key)
    if value is None:
        raise ValueError(f"agent.{key} is not set")
    return value


AGENTS: dict[str, _Entry] = {
    "self_memory": _Entry(SelfMemoryAgent, _with_memory, searches=True),
    "react": _Entry(ReactAgent, _without_memory, searches=True),
    "rag": _Entry(RagAgent, _without_memory, searches=True),
    "chunk_memory": _Entry(ChunkMemoryAgent, _reading),
    "full_context": _Entry(OneRequestAgent, _one_request),
    "closed_book": _Entry(OneRequestAgent, _one_request),
}
