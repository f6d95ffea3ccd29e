"""A baseline in one shot: one search with the question itself, then one turn that answers."""

from __future__ import annotations

from mempo.agents.base import LanguageModel, Tool
from mempo.agents.turn_taker import TurnTaker
from mempo.probe import ANSWER_TAG, ProbeFormat
from mempo.prompts import question_with_passages, system_prompt
from mempo.task import Limits, Task
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode, StopReason, Trajectory


class RagAgent:
    """Retrieves once and answers from what came back, without a memory.

    The passages stand in the question's message, as outside text. The one turn carries them as its observation, so
    that the search counts, although it came before the turn; `observation_ids` is empty as on every last turn.

    Args:
        prompt: name of the system prompt (`mempo.prompts.system_prompt`).
        context: without effect on a single turn; kept in the trajectory.
    """

    probe_format: ProbeFormat = ANSWER_TAG
    verifier: str = "tagged"

    def __init__(
        self, tokens: ChatTokens, search: Tool, *, prompt: str, context: ContextMode, limits: Limits
    ) -> None:
        self.tokens, self.search, self.context, self.limits = tokens, search, context, limits
        self._system = system_prompt(prompt, "rag")
        self._turns = TurnTaker(tokens, limits, keeps_memory=False)

    async def run(self, task: Task, model: LanguageModel) -> Trajectory:
        """Searches for the question and asks for the answer.

        Raises:
            RolloutError: if question and passages do not fit the window, or the model returned half a turn.
        """
        reply = await self.search(task.question)
        passages, _ = self.tokens.cut(reply.text, self.limits.max_observation_tokens)
        first = self.tokens.first_prompt(self._system, question_with_passages(task.question, passages))
        opening = self.tokens.generation_prompt_ids
        self._turns.check_question(task, first + opening)
        turn = await self._turns.take(task, first + opening, model, index=0)
        turn.observation, turn.observation_status = passages, reply.status
        if turn.finish == "length":
            stop = StopReason.TRUNCATED
        else:
            # A search ends it too: it was the last turn there is.
            stops = {"answer": StopReason.ANSWERED, "search": StopReason.MAX_TURNS}
            stop = stops.get(turn.action.kind, StopReason.NO_ACTION)
        return Trajectory(task, [turn], stop, first, opening, self.context)
