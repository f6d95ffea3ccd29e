"""A baseline without a memory: every turn thinks, then searches or answers (ReAct, arXiv 2210.03629)."""

from __future__ import annotations

from mempo.agents.base import Tool
from mempo.agents.searching import SearchingAgent
from mempo.agents.turn_taker import TurnTaker
from mempo.prompts import system_prompt
from mempo.task import Limits
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode


class ReactAgent(SearchingAgent):
    """What `SelfMemoryAgent` is compared with: its loop, limits and tags, without `<mem>`.

    Args:
        prompt: name of the system prompt (`mempo.prompts.system_prompt`).
        context: `history` for the usual baseline; with a window, nothing carries over what leaves it.
    """

    def __init__(
        self, tokens: ChatTokens, search: Tool, *, prompt: str, context: ContextMode, limits: Limits
    ) -> None:
        super().__init__(
            tokens,
            search,
            system=system_prompt(prompt, "react"),
            context=context,
            limits=limits,
            turns=TurnTaker(tokens, limits, keeps_memory=False),
        )
