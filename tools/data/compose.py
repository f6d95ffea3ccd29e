"""Questions of several objectives, made of single ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mempo.prompts import join_objectives
from mempo.task import Reference, Task
from tools.data.question import Question
from tools.data.schema import QuestionRow


@dataclass(frozen=True)
class Composed:
    """One or more questions, asked together in this order."""

    parts: list[Question]

    @property
    def id(self) -> str:
        """The ids of the parts, joined by `+`; a plus inside of one is written `%2B`, so that they can be told apart."""
        if len(self.parts) == 1:
            return self.parts[0].id
        return "+".join(part.id.replace("+", "%2B") for part in self.parts)

    @property
    def question(self) -> str:
        if len(self.parts) == 1:
            return self.parts[0].question
        return join_objectives(_asked(part.question) for part in self.parts)

    def _answers(self, part: Question) -> list[str]:
        """Aliases that can be given: among several answers, one with a semicolon would be read as two."""
        return [text for text in part.answers if len(self.parts) == 1 or ";" not in text]

    def to_row(self, data_source: str, split: str, index: int) -> QuestionRow:
        """The row of a parquet file; `hops` add up, and the type of several questions is `multi`.

        Args:
            data_source: name of the data set, for parts that name none themselves.
        """
        sources = dict.fromkeys(part.source or data_source for part in self.parts)
        hops = [part.hops for part in self.parts]
        titles = dict.fromkeys(page.title for part in self.parts for page in part.gold)
        return QuestionRow(
            task=Task(self.id, self.question, len(self.parts)),
            reference=Reference([self._answers(part) for part in self.parts], list(titles)),
            data_source="+".join(sorted(sources)),
            split=split,
            index=index,
            hops=sum(hops) if all(hops) else 0,
            type=self.parts[0].type if len(self.parts) == 1 else "multi",
        )

    def to_supporting(self, split: str) -> dict[str, Any]:
        """The row with its gold passages, see `tools.data.convert`."""
        answers = [self._answers(part)[0] for part in self.parts]
        return {
            "id": self.id,
            "split": split,
            "question": self.question,
            "answer": join_objectives(answers),
            "questions": [part.question for part in self.parts],
            "answers": answers,
            "paragraphs": [
                {"title": page.title, "text": page.text, "objective": number}
                for number, part in enumerate(self.parts)
                for page in part.gold
            ],
        }


def compose(
    questions: Sequence[Question], objectives: int, rng: random.Random
) -> tuple[list[Composed], dict[str, int]]:
    """Groups questions by `objectives`, each used once.

    One objective keeps the order. More of them are drawn in an order of `rng`'s; a question whose answer holds a
    semicolon is left out, because answers are joined by it.

    Returns:
        the groups, and how many questions were left out by reason (`semicolon`, `left_over`).
    """
    if objectives == 1:
        return [Composed([question]) for question in questions], {}
    pool = [q for q in questions if ";" not in q.answers[0]]
    left_out = {"semicolon": len(questions) - len(pool), "left_over": len(pool) % objectives}
    rng.shuffle(pool)
    whole = len(pool) - len(pool) % objectives
    return [Composed(pool[i : i + objectives]) for i in range(0, whole, objectives)], left_out


def _asked(question: str) -> str:
    return question if question.endswith("?") else question + "?"
