"""The MemPO agent: every turn writes its memory, thinks, then searches or answers (arXiv 2603.00680, section 3)."""

from __future__ import annotations

from mempo.agents.base import Tool
from mempo.agents.searching import SearchingAgent
from mempo.agents.turn_taker import TurnTaker
from mempo.prompts import FORCED_PREFIX, system_prompt
from mempo.task import Limits
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode


class SelfMemoryAgent(SearchingAgent):
    """One policy that searches and keeps its own memory.

    Args:
        prompt: name of the system prompt (`mempo.prompts.SYSTEM_PROMPTS`).
        context: what a turn is shown of the turns before it.
        force_memory_prefix: open every turn with `<mem>` and a newline, shown to the model but not trained.
    """

    def __init__(
        self,
        tokens: ChatTokens,
        search: Tool,
        *,
        prompt: str,
        context: ContextMode,
        limits: Limits,
        force_memory_prefix: bool = False,
    ) -> None:
        prefix = FORCED_PREFIX if force_memory_prefix else ""
        super().__init__(
            tokens,
            search,
            system=system_prompt(prompt),
            context=context,
            limits=limits,
            turns=TurnTaker(tokens, limits, keeps_memory=True, prefix=prefix),
        )
