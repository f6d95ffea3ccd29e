"""What an agent is asked (`Task`) and what only rewards, probes and metrics may know (`Reference`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Task:
    """A question as an agent sees it; nothing in it derives from the gold answer.

    Attributes:
        id: unique name of the question in its data set.
        question: the question text; several questions are joined by "; ".
        objectives: how many questions the text holds, hence how many answers are expected.
        document: the text to answer from, for agents that read one; outside text, and empty elsewhere.
    """

    id: str
    question: str
    objectives: int = 1
    document: str = ""

    def __post_init__(self) -> None:
        if self.objectives < 1:
            raise ValueError(f"task {self.id!r}: objectives is {self.objectives}, it must be at least 1")
        if not self.question.strip():
            raise ValueError(f"task {self.id!r}: the question is blank")

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Task:
        """Builds a task from the `task` struct of a row; files of questions without a document have no such field."""
        return cls(
            id=str(columns["id"]),
            question=str(columns["question"]),
            objectives=int(columns["objectives"]),
            document=str(columns.get("document") or ""),
        )


@dataclass(frozen=True)
class Reference:
    """Gold of one task: goes to reward, probe and metrics, never to an agent.

    Attributes:
        answers: one list of accepted aliases per objective; the first alias is the canonical answer.
        supporting: titles of the gold paragraphs, where the data set has them.
    """

    answers: list[list[str]]
    supporting: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.answers or any(not aliases for aliases in self.answers):
            raise ValueError("reference: every objective needs at least one accepted answer")
        if any(not alias.strip() for aliases in self.answers for alias in aliases):
            raise ValueError(f"reference: a gold answer is blank in {self.answers!r}")

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Reference:
        """Builds a reference from a parquet struct; list columns may arrive as numpy arrays."""
        return cls(
            answers=[[str(alias) for alias in _as_list(aliases)] for aliases in _as_list(columns["answers"])],
            supporting=[str(title) for title in _as_list(columns.get("supporting"))],
        )


def _as_list(value: Any) -> Sequence[Any]:
    return [] if value is None else list(value)


@dataclass(frozen=True)
class Limits:
    """Bounds of one rollout, all in tokens but for the number of turns.

    Attributes:
        max_turns: assistant turns per trajectory.
        max_response_tokens: tokens the model may write in one turn; a forced prefix is not counted.
        max_observation_tokens: tokens of outside text in one observation; the frame around it is not counted.
        max_context_tokens: prompt and response of one request together (the model's window).
    """

    max_turns: int
    max_response_tokens: int
    max_observation_tokens: int
    max_context_tokens: int

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_response_tokens", "max_observation_tokens", "max_context_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"limits: {name} is {getattr(self, name)}, it must be at least 1")
