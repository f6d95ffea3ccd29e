"""The MemPO agent: every turn writes its memory, thinks, then searches or answers (arXiv 2603.00680, section 3)."""

from __future__ import annotations

from mempo.agents.base import Generation, LanguageModel, RolloutError, Tool
from mempo.probe import ANSWER_TAG, ProbeFormat
from mempo.prompts import FORCED_PREFIX, system_prompt
from mempo.tags import parse_turn
from mempo.task import Limits, Task
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode, StopReason, Trajectory, Turn, context_ids


class SelfMemoryAgent:
    """One policy that searches and keeps its own memory.

    Args:
        prompt: name of the system prompt (`mempo.prompts.SYSTEM_PROMPTS`).
        context: what a turn is shown of the turns before it.
        force_memory_prefix: open every turn with `<mem>` and a newline, shown to the model but not trained.
    """

    probe_format: ProbeFormat = ANSWER_TAG

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
        self.tokens, self.search, self.context, self.limits = tokens, search, context, limits
        self._system = system_prompt(prompt)
        self._prefix = tokens.encode_own(FORCED_PREFIX) if force_memory_prefix else []

    async def run(self, task: Task, model: LanguageModel) -> Trajectory:
        """Runs `task` until it is answered or a limit ends it.

        Raises:
            RolloutError: if the question alone does not fit the window, or the model returned half a turn.
        """
        first, opening = (
            self.tokens.first_prompt(self._system, task.question),
            self.tokens.generation_prompt_ids,
        )
        trajectory = Trajectory(task, [], StopReason.MAX_TURNS, first, opening, self.context)
        turns, limits = trajectory.turns, self.limits
        while len(turns) < limits.max_turns:
            prompt = context_ids(first, opening, turns, self.context)
            needed = len(prompt) + len(self._prefix) + limits.max_response_tokens
            if needed > limits.max_context_tokens:
                if not turns:
                    raise RolloutError(
                        "question_too_long",
                        f"task {task.id!r}: question and one turn need {needed} tokens, the window has "
                        f"{limits.max_context_tokens}: raise agent.max_context_tokens or drop the question",
                    )
                trajectory.stop = StopReason.CONTEXT_FULL
                return trajectory
            generation = await model.generate(
                prompt + self._prefix, max_tokens=limits.max_response_tokens, turn=len(turns)
            )
            turn = self._read(task, prompt, generation)
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

    def _read(self, task: Task, prompt: list[int], generation: Generation) -> Turn:
        ids = generation.token_ids
        stopped = bool(ids) and ids[-1] in self.tokens.stop_token_ids
        if not stopped and len(ids) < self.limits.max_response_tokens:
            raise RolloutError(
                "incomplete_generation",
                f"task {task.id!r}: the model returned {len(ids)} tokens without an end-of-turn token, and "
                f"{self.limits.max_response_tokens} were allowed",
            )
        written = self._prefix + ids
        spelling = self.tokens.pieces.spell(written[:-1] if stopped else written)
        parsed = parse_turn(spelling.text)
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

    async def _observe(self, turn: Turn) -> None:
        reply = await self.search(turn.action.text)
        turn.observation, _ = self.tokens.cut(reply.text, self.limits.max_observation_tokens)
        turn.observation_status = reply.status
        ended = turn.response_ids[-1] == self.tokens.turn_end_id
        turn.observation_ids = self.tokens.observation(turn.observation, ended=ended)
