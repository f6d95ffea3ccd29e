"""An agent for tests, named in a config as `tests.verl_patches.scripted:build_scripted`.

The model writes the content of the memory, the rest of each turn is scripted: search, then answer. So a random model gives
closed memories, two turns and rewards that differ between sessions. `agent.fault` makes sessions raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mempo.agents.base import Agent, Generation, LanguageModel, RolloutError, Tool, ToolReply
from mempo.agents.factory import limits_from
from mempo.agents.self_memory import SelfMemoryAgent
from mempo.probe import ANSWER_TAG
from mempo.task import Task
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode, Trajectory

RIGHT, WRONG = "rome", "paris"
SCRIPTED_LOGPROB = -1.0  # of tokens that the model did not write

_sessions = 0


async def search_nothing(query: str) -> ToolReply:
    return ToolReply("(1) Rome\nrome is a city", "ok")


class ScriptedModel:
    """Lets the real model write a few tokens of every memory and puts a fixed turn around them."""

    def __init__(self, tokens: ChatTokens, model: LanguageModel) -> None:
        self._tokens, self._model = tokens, model

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        own = self._tokens.encode_own
        opening = own("<mem>\n")
        real = await self._model.generate(prompt_ids + opening, max_tokens=6, turn=turn)
        kept = [
            (token, logprob)
            for token, logprob in zip(real.token_ids, real.logprobs, strict=True)
            if token not in self._tokens.stop_token_ids
        ]
        said = RIGHT if sum(real.token_ids) % 2 else WRONG
        action = "<search>\nrome\n</search>" if turn == 0 else f"<answer>\n{said}\n</answer>"
        closing = [*own(f"\n</mem>\n<think>\nking\n</think>\n{action}"), self._tokens.turn_end_id]
        ids = opening + [token for token, _ in kept] + closing
        scripted = [SCRIPTED_LOGPROB]
        logprobs = scripted * len(opening) + [logprob for _, logprob in kept] + scripted * len(closing)
        return Generation(ids, logprobs)


class ScriptedAgent:
    """`SelfMemoryAgent` over a scripted model."""

    probe_format = ANSWER_TAG

    def __init__(self, agent: SelfMemoryAgent, tokens: ChatTokens, fault: str, verifier: str) -> None:
        self._agent, self._tokens, self._fault, self.verifier = agent, tokens, fault, verifier

    async def run(self, task: Task, model: LanguageModel) -> Trajectory:
        global _sessions
        _sessions += 1
        if self._fault == "all":
            raise ValueError("injected into every session")
        if self._fault == "first_session" and _sessions == 1:
            raise RolloutError("injected", "injected into the first session of the process")
        return await self._agent.run(task, ScriptedModel(self._tokens, model))


def build_scripted(settings: Mapping[str, Any], tokens: ChatTokens, search: Tool | None) -> Agent:
    agent = SelfMemoryAgent(
        tokens,
        search or search_nothing,
        prompt=settings["prompt"],
        context=ContextMode.parse(settings["context"]),
        limits=limits_from(settings),
    )
    return ScriptedAgent(agent, tokens, str(settings["fault"]), str(settings.get("verifier", "tagged")))
