"""Two baselines of the chunk reader in a single request: the whole document at once, or no document at all."""

from __future__ import annotations

from mempo.agents.base import LanguageModel, RolloutError, ended, no_document
from mempo.boxed import boxed_answer
from mempo.probe import BOXED_ANSWER, ProbeFormat
from mempo.prompts import ONE_REQUEST
from mempo.task import Limits, Task
from mempo.tokens import ChatTokens
from mempo.trajectory import Action, ContextMode, MemoryStatus, StopReason, Trajectory, Turn
from mempo.verifiers import check_verifier


class OneRequestAgent:
    r"""Asks once and takes the `\boxed{}` answer.

    Args:
        name: of `mempo.prompts.ONE_REQUEST`: `full_context`, or `closed_book`, which finds the questions that a model answers
            by heart.
        limits: `max_response_tokens` bounds the answer; a document that does not fit `max_context_tokens` is a failed
            rollout, never cut.
        verifier: of `mempo.verifiers`.
    """

    probe_format: ProbeFormat = BOXED_ANSWER

    def __init__(self, tokens: ChatTokens, *, name: str, limits: Limits, verifier: str) -> None:
        check_verifier(verifier)
        self.tokens, self.limits, self.verifier = tokens, limits, verifier
        self._parts = tokens.message_around(ONE_REQUEST[name])

    async def run(self, task: Task, model: LanguageModel) -> Trajectory:
        """Asks for the answer.

        Raises:
            RolloutError: there is no document to show, question and document do not fit the window, or the model returned
                half a turn.
        """
        shown = (task.question, task.document)[: len(self._parts) - 1]
        outside = [self.tokens.encode_inert(text) for text in shown]
        if not outside[-1]:
            raise no_document(task)  # a question is never blank
        prompt = [*self._parts[0]]
        for ids, part in zip(outside, self._parts[1:], strict=True):
            prompt += ids + part
        cap = self.limits.max_response_tokens
        if len(prompt) + cap > self.limits.max_context_tokens:
            raise RolloutError(
                "document_too_long",
                f"task {task.id!r}: prompt and answer need {len(prompt) + cap} tokens, the window has "
                f"{self.limits.max_context_tokens}",
            )
        made = await model.generate(prompt, max_tokens=cap, turn=0)
        ids = made.token_ids
        stopped = ended(self.tokens, made, cap, f"task {task.id!r}")
        spelling = self.tokens.pieces.spell(ids[:-1] if stopped else ids)
        text = spelling.readable(spelling.text)
        answer = boxed_answer(text)
        turn = Turn(
            prompt_ids=prompt,
            prefix_ids=[],
            response_ids=list(ids),
            logprobs=list(made.logprobs),
            memory_span=None,
            memory_status=MemoryStatus.NONE,
            memory_text="",
            thought=text,
            action=Action("none", "", "box_missing") if answer is None else Action("answer", answer),
            finish="stop" if stopped else "length",
        )
        stop = StopReason.ANSWERED if answer is not None else StopReason.NO_ACTION
        if answer is None and not stopped:
            stop = StopReason.TRUNCATED
        opening = self.tokens.generation_prompt_ids
        asked = Task(task.id, task.question, task.objectives)
        return Trajectory(asked, [turn], stop, prompt[: -len(opening)], opening, ContextMode())
