"""One agent and one search client per agent-loop worker process, built from the config on first use."""

from __future__ import annotations

import os
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mempo.agents.base import Agent, Tool
from mempo.agents.factory import build_agent
from mempo.tokens import ChatTokens

_shared: tuple[Agent, ChatTokens] | None = None


def shared_agent(config: DictConfig, tokenizer: Any) -> tuple[Agent, ChatTokens]:
    """The process's agent and its tokens. Agents keep no state between rollouts, so one serves them all."""
    global _shared
    if _shared is None:
        tokens = chat_tokens(config, tokenizer)
        _shared = build_agent(plain(config.agent), tokens, search_tool(config.search)), tokens
    return _shared


def chat_tokens(config: DictConfig, tokenizer: Any) -> ChatTokens:
    """The tokenizer as the run sees it: with the model's stop ids and verl's `data.apply_chat_template_kwargs`."""
    return ChatTokens(
        tokenizer,
        model=config.actor_rollout_ref.model.path,
        chat_template_kwargs=plain(config.data.get("apply_chat_template_kwargs") or {}),
    )


def search_tool(search: DictConfig) -> Tool | None:
    """A client of the search server at `search.url`; None if there is no url."""
    if not search.get("url"):
        return None
    from tools.search.client import SearchClient

    token_env = search.get("token_env")
    return SearchClient(
        str(search.url),
        topk=int(search.topk),
        deadline_s=float(search.deadline_s),
        retries=int(search.retries),
        token=os.environ.get(str(token_env)) if token_env else None,
    )


def plain(node: Any) -> dict[str, Any]:
    """A config node as a resolved dict."""
    if isinstance(node, DictConfig):
        return dict(OmegaConf.to_container(node, resolve=True))  # type: ignore[arg-type]
    return dict(node)
