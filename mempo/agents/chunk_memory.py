"""The MemAgent reader: a document of any length, chunk by chunk, with a memory that is overwritten (arXiv 2507.02259)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from mempo.agents.base import Generation, LanguageModel, RolloutError, ended, no_document
from mempo.agents.reading_caps import check_caps, longest_request
from mempo.boxed import boxed_answer
from mempo.probe import BOXED_ANSWER, ProbeFormat
from mempo.prompts import ReadingPrompt
from mempo.task import Limits, Task
from mempo.tokens import ChatTokens
from mempo.trajectory import (
    Action,
    ContextMode,
    ContractViolation,
    MemoryFrame,
    MemoryStatus,
    StopReason,
    Trajectory,
    Turn,
)
from mempo.verifiers import check_verifier


class ChunkMemoryAgent:
    """Question, memory and one chunk → the next memory, until the document ends; then question and memory → answer.

    Every request is a conversation of its own. Question, memory and chunk go into it as token ids between the fixed parts
    of the prompt: the memory exactly as it was generated, question and chunk as outside text. The final prompt is put
    together from question, last memory and answer format alone.

    A memory is all that the model wrote, up to a token that would open or close a message; also what ran into the cap
    is one, and nothing at all is an empty one, which overwrites too.

    Args:
        prompt: the words around question, memory and chunk.
        limits: `max_turns` (chunks and the final turn), `max_observation_tokens` (a chunk), `max_response_tokens` (a
            memory), `max_context_tokens`.
        max_question_tokens, max_answer_tokens: of the question, and of the final turn.
        verifier: of `mempo.verifiers`.

    Raises:
        ValueError: if the longest request that the caps allow does not fit `limits.max_context_tokens`.
    """

    probe_format: ProbeFormat = BOXED_ANSWER

    def __init__(
        self,
        tokens: ChatTokens,
        *,
        prompt: ReadingPrompt,
        limits: Limits,
        max_question_tokens: int,
        max_answer_tokens: int,
        verifier: str,
    ) -> None:
        check_verifier(verifier)
        self.tokens, self.limits, self.verifier = tokens, limits, verifier
        self.max_question_tokens, self.max_answer_tokens = max_question_tokens, max_answer_tokens
        self._reading = tokens.message_around(prompt.reading)
        self._answering = tokens.message_around(prompt.answering)
        self._no_memory = tokens.encode_own(prompt.no_memory)
        self._cutter = ThreadPoolExecutor(1, thread_name_prefix="chunks")
        check_caps(limits, self.longest_request)

    @property
    def longest_request(self) -> int:
        """Tokens of prompt and response that no request exceeds, whatever the document (`mempo.agents.reading_caps`)."""
        return longest_request(
            self.limits,
            max_question_tokens=self.max_question_tokens,
            max_answer_tokens=self.max_answer_tokens,
            reading=sum(map(len, self._reading)),
            answering=sum(map(len, self._answering)),
            no_memory=len(self._no_memory),
        )

    async def run(self, task: Task, model: LanguageModel) -> Trajectory:
        """Reads `task.document` to its end and answers.

        Raises:
            RolloutError: there is no document, it has more chunks than `max_turns` allows, the question is too long, or
                the model returned half a turn.
            ContractViolation: the model returned more than it was asked for.
        """
        question = self.tokens.encode_inert(task.question)
        if len(question) > self.max_question_tokens:
            raise RolloutError(
                "question_too_long",
                f"task {task.id!r}: the question has {len(question)} tokens: raise agent.max_question_tokens "
                f"({self.max_question_tokens}) or drop the question",
            )
        chunks = await self._chunks(task)
        before, between, after = self._answering
        frame = MemoryFrame(before + question + between, after, self._no_memory)
        turns = await self._read(task, question, chunks, model)
        final = await self._answer(task, frame.around(turns[-1].memory_ids or []), model, index=len(turns))
        return Trajectory(
            task=Task(task.id, task.question, task.objectives),  # the document has been read, and is let go
            turns=[*turns, final],
            stop=_stop(final),
            first_prompt_ids=[],
            generation_prompt_ids=self.tokens.generation_prompt_ids,
            context=ContextMode(rewritten=True),
            memory_frame=frame,
        )

    async def _chunks(self, task: Task) -> list[list[int]]:
        # In a thread: a document of millions of tokens takes seconds, in which other rollouts go on. Documents queue for
        # it, for each needs hundreds of MB while it is cut.
        size, loop = self.limits.max_observation_tokens, asyncio.get_running_loop()
        chunks = await loop.run_in_executor(self._cutter, self.tokens.chunks, task.document, size)
        if not chunks:
            raise no_document(task)
        if len(chunks) >= self.limits.max_turns:
            raise RolloutError(
                "document_too_long",
                f"task {task.id!r}: the document has {len(chunks)} chunks of {size} tokens, and "
                f"{self.limits.max_turns - 1} are allowed: raise agent.max_turns or agent.max_observation_tokens",
            )
        return chunks

    async def _read(
        self, task: Task, question: list[int], chunks: Iterable[list[int]], model: LanguageModel
    ) -> list[Turn]:
        turns: list[Turn] = []
        memory = self._no_memory
        head, middle, section, end = self._reading
        for index, chunk in enumerate(chunks):
            start = head + question + middle
            prompt = start + memory + section + chunk + end
            turn = await self._ask(task, prompt, model, self.limits.max_response_tokens, index)
            turn.shown_memory = (len(start), len(start) + len(memory))
            memory = turn.memory_ids or []
            turns.append(turn)
        return turns

    async def _answer(self, task: Task, prompt: list[int], model: LanguageModel, *, index: int) -> Turn:
        turn = await self._ask(task, prompt, model, self.max_answer_tokens, index)
        turn.thought, turn.memory_text = turn.memory_text, ""
        turn.memory_span, turn.memory_status = None, MemoryStatus.NONE
        answer = boxed_answer(turn.thought)
        turn.action = Action("none", "", "box_missing") if answer is None else Action("answer", answer)
        return turn

    async def _ask(self, task: Task, prompt: list[int], model: LanguageModel, cap: int, index: int) -> Turn:
        """One request, read as a memory turn."""
        generation = await model.generate(prompt, max_tokens=cap, turn=index)
        ids = generation.token_ids
        stopped = self._ended(task, generation, cap, index)
        length = next((n for n, token in enumerate(ids) if token in self.tokens.frame_ids), len(ids))
        text = self.tokens.pieces.spell(ids[:length])
        return Turn(
            prompt_ids=prompt,
            prefix_ids=[],
            response_ids=list(ids),
            logprobs=list(generation.logprobs),
            memory_span=(0, length),
            memory_status=MemoryStatus.CLOSED,
            memory_text=text.readable(text.text),
            thought=None,
            action=Action("read", ""),
            finish="stop" if stopped else "length",
        )

    def _ended(self, task: Task, generation: Generation, cap: int, index: int) -> bool:
        ids = generation.token_ids
        where = f"task {task.id!r}, turn {index + 1}"
        if len(ids) > cap:
            raise ContractViolation(f"{where}: {len(ids)} tokens were generated, the turn's cap is {cap}")
        if len(generation.logprobs) != len(ids):
            raise ContractViolation(f"{where}: {len(generation.logprobs)} log-probs for {len(ids)} tokens")
        return ended(self.tokens, generation, cap, where)


def _stop(final: Turn) -> StopReason:
    if final.action.kind == "answer":
        return StopReason.ANSWERED
    return StopReason.TRUNCATED if final.finish == "length" else StopReason.NO_ACTION
