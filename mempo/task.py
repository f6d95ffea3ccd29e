"""What an agent is asked (`Task`) and what only rewards, probes and metrics may know (`Reference`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mempo.cells import items, text, whole_number

_LISTS = "write one list of accepted answers per objective, e.g. [['Rome', 'Roma']]"
_GOLD = "write the gold answer as a text"


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
        text(self.id, "task.id", "write the question's name as a text")
        text(self.question, "task.question", "write the question as a text")
        whole_number(self.objectives, "task.objectives", 1)
        text(self.document, "task.document", "write the document as a text", blank=True)

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Task:
        """Builds a task from the `task` struct of a row; files of questions without a document have no such field.

        Raises:
            ValueError: a field is missing or of another type, naming it: nothing is made into a text or a number.
        """
        for name in ("id", "question", "objectives"):
            if name not in columns:
                raise ValueError(f"task.{name} is missing: {_remedy(columns)}")
        document = columns.get("document")
        return cls(
            id=columns["id"],
            question=columns["question"],
            objectives=whole_number(columns["objectives"], "task.objectives", 1),
            document="" if document is None else document,
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
        if not items(self.answers, "reference.answers", _LISTS):
            raise ValueError(f"reference.answers is empty: {_LISTS}")
        for place, aliases in enumerate(self.answers):
            name = f"reference.answers[{place}]"
            if not items(aliases, name, _LISTS):
                raise ValueError(f"{name} is empty: every objective needs at least one accepted answer")
            for index, alias in enumerate(aliases):
                text(alias, f"{name}[{index}]", _GOLD)
        for place, title in enumerate(
            items(self.supporting, "reference.supporting", "write a list of titles")
        ):
            text(title, f"reference.supporting[{place}]", "write the title as a text", blank=True)

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Reference:
        """Builds a reference from a parquet struct; list columns may arrive as numpy arrays.

        Raises:
            ValueError: as `Task.from_columns`.
        """
        if "answers" not in columns:
            raise ValueError(f"reference.answers is missing: {_remedy(columns)}")
        listed = items(columns["answers"], "reference.answers", _LISTS)
        supporting = columns.get("supporting")
        return cls(
            answers=[items(each, f"reference.answers[{place}]", _LISTS) for place, each in enumerate(listed)],
            supporting=[]
            if supporting is None
            else items(supporting, "reference.supporting", "write a list of titles"),
        )


def _remedy(columns: Mapping[str, Any]) -> str:
    return f"the record has {', '.join(map(str, columns)) or 'no field'}"


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
