"""One turn: what the model is asked for, and how what it wrote is read. The same for every agent."""

from __future__ import annotations

from mempo.agents.base import Generation, LanguageModel, RolloutError, ended
from mempo.tags import parse_turn
from mempo.task import Limits, Task
from mempo.tokens import ChatTokens
from mempo.trajectory import Turn


class TurnTaker:
    """Takes turns in the grammar of `mempo.tags`.

    Args:
        keeps_memory: whether a turn has to hold `<mem>…</mem>`.
        prefix: our own text that opens every turn, shown to the model but not trained.
    """

    def __init__(self, tokens: ChatTokens, limits: Limits, *, keeps_memory: bool, prefix: str = "") -> None:
        self._tokens, self._limits, self._keeps_memory = tokens, limits, keeps_memory
        self._prefix = tokens.encode_own(prefix)

    def fits(self, prompt: list[int]) -> bool:
        """Whether the window holds `prompt` and the longest turn."""
        return self._needed(prompt) <= self._limits.max_context_tokens

    def check_question(self, task: Task, prompt: list[int]) -> None:
        """Raises RolloutError if not even a first turn fits."""
        if not self.fits(prompt):
            raise RolloutError(
                "question_too_long",
                f"task {task.id!r}: question and one turn need {self._needed(prompt)} tokens, the window has "
                f"{self._limits.max_context_tokens}: raise agent.max_context_tokens or drop the question",
            )

    async def take(self, task: Task, prompt: list[int], model: LanguageModel, *, index: int) -> Turn:
        """Turn `index` (0-based) after `prompt`, which ends in a generation prompt.

        Raises:
            RolloutError: if the model returned half a turn.
        """
        generation = await model.generate(
            prompt + self._prefix, max_tokens=self._limits.max_response_tokens, turn=index
        )
        return self._read(task, prompt, generation, index)

    def _needed(self, prompt: list[int]) -> int:
        return len(prompt) + len(self._prefix) + self._limits.max_response_tokens

    def _read(self, task: Task, prompt: list[int], generation: Generation, index: int) -> Turn:
        ids = generation.token_ids
        stopped = ended(
            self._tokens, generation, self._limits.max_response_tokens, f"task {task.id!r}, turn {index + 1}"
        )
        written = self._prefix + ids
        spelling = self._tokens.pieces.spell(written[:-1] if stopped else written)
        parsed = parse_turn(spelling.text, keeps_memory=self._keeps_memory)
        parsed.action.text = spelling.readable(parsed.action.text)
        return Turn(
            prompt_ids=prompt,
            prefix_ids=list(self._prefix),
            response_ids=list(ids),
            logprobs=list(generation.logprobs),
            memory_span=spelling.token_span(*parsed.memory_chars) if parsed.memory_chars else None,
            memory_status=parsed.memory_status,
            memory_text=spelling.readable(parsed.memory),
            thought=None if parsed.thought is None else spelling.readable(parsed.thought),
            action=parsed.action,
            format_problem=parsed.problem.value if parsed.problem else None,
            finish="stop" if stopped else "length",
        )
