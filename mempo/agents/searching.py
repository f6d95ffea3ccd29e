"""The loop of an agent that searches turn by turn until it answers."""

from __future__ import annotations

from mempo.agents.base import LanguageModel, Tool
from mempo.agents.turn_taker import TurnTaker
from mempo.probe import ANSWER_TAG, ProbeFormat
from mempo.task import Limits, Task
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode, StopReason, Trajectory, Turn, context_ids


class SearchingAgent:
    """Asks for a turn, searches for what it asks, and goes on.

    Args:
        system: text of the system prompt.
        context: what a turn is shown of the turns before it.
        turns: how a turn is asked for and read.
    """

    probe_format: ProbeFormat = ANSWER_TAG
    verifier: str = "tagged"

    def __init__(
        self,
        tokens: ChatTokens,
        search: Tool,
        *,
        system: str,
        context: ContextMode,
        limits: Limits,
        turns: TurnTaker,
    ) -> None:
        self.tokens, self.search, self.context, self.limits = tokens, search, context, limits
        self._system, self._turns = system, turns

    async def run(self, task: Task, model: LanguageModel) -> Trajectory:
        """Runs `task` until it is answered or a limit ends it.

        Raises:
            RolloutError: if the question alone does not fit the window, or the model returned half a turn.
        """
        first = self.tokens.first_prompt(self._system, task.question)
        opening = self.tokens.generation_prompt_ids
        self._turns.check_question(task, first + opening)
        trajectory = Trajectory(task, [], StopReason.MAX_TURNS, first, opening, self.context)
        turns, limits = trajectory.turns, self.limits
        while len(turns) < limits.max_turns:
            prompt = context_ids(first, opening, turns, self.context)
            if not self._turns.fits(prompt):
                trajectory.stop = StopReason.CONTEXT_FULL
                return trajectory
            turn = await self._turns.take(task, prompt, model, index=len(turns))
            turns.append(turn)
            if turn.finish == "length":
                trajectory.stop = StopReason.TRUNCATED
                return trajectory
            if turn.action.kind != "search":
                answered = turn.action.kind == "answer"
                trajectory.stop = StopReason.ANSWERED if answered else StopReason.NO_ACTION
                return trajectory
            if len(turns) < limits.max_turns:
                await self._observe(turn)
        return trajectory

    async def _observe(self, turn: Turn) -> None:
        reply = await self.search(turn.action.text)
        turn.observation, _ = self.tokens.cut(reply.text, self.limits.max_observation_tokens)
        turn.observation_status = reply.status
        ended = turn.response_ids[-1] == self.tokens.turn_end_id
        turn.observation_ids = self.tokens.observation(turn.observation, ended=ended)
