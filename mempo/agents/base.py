"""What an agent needs (a language model, a tool) and what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from mempo.probe import ProbeFormat
from mempo.task import Task
from mempo.tokens import ChatTokens
from mempo.trajectory import Trajectory


class RolloutError(Exception):
    """A rollout that cannot go on. It costs that rollout alone: excluded, counted under `cause`, never reward 0."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


def no_document(task: Task) -> RolloutError:
    """What ends a rollout that was to read a document, and has none."""
    return RolloutError(
        "no_document",
        f"task {task.id!r} has no document to read: make the data with `mempo data long-context`, or give the record a "
        "field `document`",
    )


def ended(tokens: ChatTokens, made: Generation, cap: int, where: str) -> bool:
    """Whether the model ended its turn itself; False if its `cap` cut it.

    Raises:
        RolloutError: neither: the engine returned half a turn, or stops at an id that is none of ours.
    """
    ids = made.token_ids
    if tokens.ended(ids):
        return True
    if not ids or not (made.truncated or len(ids) >= cap):
        last = f"the last of them {ids[-1]}, " if ids else ""
        raise RolloutError(
            "incomplete_generation",
            f"{where}: the model returned {len(ids)} tokens, {last}none that ends a turn {tokens.stop_token_ids}, and {cap} "
            "were allowed; an engine that stops elsewhere has it in its generation_config.json, which belongs beside the "
            "tokenizer",
        )
    return False


@dataclass
class Generation:
    """What a language model wrote.

    Attributes:
        token_ids: end-of-turn token included if there is one.
        logprobs: one per token, natural log.
        truncated: `max_tokens` cut the reply. Only a model that hands over text has to say so: its ids are ours, and
            their number does not tell.
    """

    token_ids: list[int]
    logprobs: list[float]
    truncated: bool = False


class LanguageModel(Protocol):
    """Token in, token out. Temperature, seeds and the endpoint belong to the implementation."""

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        """Continues `prompt_ids` by at most `max_tokens` tokens; `turn` is 0-based and part of the request's seed."""
        ...


@dataclass(frozen=True)
class ToolReply:
    """A tool's answer as the model will read it; `failed` and `empty` are different observations."""

    text: str
    status: Literal["ok", "empty", "blank", "failed"]


class Tool(Protocol):
    """A search tool. It never raises for a failed search: it says so in its reply."""

    async def __call__(self, query: str) -> ToolReply: ...


class Agent(Protocol):
    """Runs one task to its end.

    Attributes:
        probe_format: how it states an answer; memories are scored with it.
        verifier: what counts as a right answer of it (`mempo.verifiers`).
    """

    probe_format: ProbeFormat
    verifier: str

    async def run(self, task: Task, model: LanguageModel) -> Trajectory: ...
