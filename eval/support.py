"""Whether an agent found the gold paragraphs, and whether its memory kept them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mempo.answers import exact_match, sub_exact_match
from mempo.trajectory import Trajectory

_HEAD = re.compile(r"\((\d+)\) (.+)")
_QUALIFIER = re.compile(r"\s*\([^()]*\)$")


@dataclass(frozen=True)
class SupportRecall:
    """Shares of the gold paragraphs, between 0 and 1.

    Attributes:
        search: whose title stood over a passage of some observation.
        memory: whose title, with or without a qualifier such as `(film)`, is named in some closed memory.
    """

    search: float
    memory: float

    @classmethod
    def of(cls, trajectory: Trajectory, supporting: Sequence[str]) -> SupportRecall | None:
        """None without gold paragraphs. Titles are compared as answers are (`mempo.answers`)."""
        if not supporting:
            return None
        found = [title for turn in trajectory.turns for title in passage_titles(turn.observation)]
        memories = [turn.memory_text for turn in trajectory.turns if turn.memory_span is not None]
        shown = [exact_match(gold, found) for gold in supporting]
        kept = [any(sub_exact_match(memory, _names(gold)) for memory in memories) for gold in supporting]
        return cls(search=sum(shown) / len(shown), memory=sum(kept) / len(kept))


def passage_titles(observation: str) -> list[str]:
    """The titles in a search result as `mempo.prompts.format_passages` writes it.

    A line counts as a title if it has the next number in order, so that a numbered list inside a passage does not.
    """
    titles: list[str] = []
    for line in observation.split("\n"):
        head = _HEAD.fullmatch(line)
        if head and int(head[1]) == len(titles) + 1:
            titles.append(head[2])
    return titles


def _names(title: str) -> list[str]:
    return [title, _QUALIFIER.sub("", title)]
