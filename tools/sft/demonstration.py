"""A demonstration: one trajectory as text, and the chat rows that SFT trains on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mempo.probe import ANSWER_TAG
from mempo.prompts import format_turn, system_prompt
from mempo.trajectory import ContextMode

# The last thought is the probe's sentence: the same words then introduce the answer when a memory is scored.
ENOUGH = ANSWER_TAG.before.split("<think>\n")[1].split("\n</think>")[0]
MORE = "Search."


@dataclass(frozen=True)
class Step:
    """One search turn: what is remembered before it, the query, and the passages that came back, as shown."""

    memory: str
    query: str
    observation: str


@dataclass(frozen=True)
class Demonstration:
    """One whole trajectory; `steps` are the searches, then the last memory and the answer."""

    id: str
    question: str
    steps: tuple[Step, ...]
    memory: str
    answer: str

    def turns(self) -> list[str]:
        """The assistant turns, in the grammar of `mempo.tags`."""
        searches = [format_turn(step.memory, MORE, search=step.query) for step in self.steps]
        return [*searches, format_turn(self.memory, ENOUGH, answer=self.answer)]

    def rows(self, context: ContextMode, prompt: str) -> Iterator[dict[str, Any]]:
        """Rows of `sft.parquet`: the whole conversation in `history`, one row per turn in a window.

        Window rows show the same messages as the agent does in that mode, and only their last message is trained.
        """
        opening = [message("system", system_prompt(prompt)), message("user", self.question)]
        turns = self.turns()
        talk = [[message("assistant", turn)] for turn in turns]
        for said, step in zip(talk, self.steps, strict=False):
            said.append(message("tool", step.observation))
        if context.window is None:
            yield row(self.id, opening + _flat(talk), context, last_only=False)
            return
        for index in range(len(turns)):
            shown = _flat(talk[max(0, index - context.window) : index])
            name = f"{self.id}/{index}"
            yield row(name, [*opening, *shown, message("assistant", turns[index])], context, last_only=True)


def message(role: str, content: str) -> dict[str, str]:
    """One chat message."""
    return {"role": role, "content": content}


def row(
    name: str, messages: Sequence[dict[str, str]], context: ContextMode, *, last_only: bool
) -> dict[str, Any]:
    """One row of `sft.parquet`."""
    return {"id": name, "messages": list(messages), "context": str(context), "train_last_only": last_only}


def _flat(parts: Sequence[Sequence[dict[str, str]]]) -> list[dict[str, str]]:
    return [message for part in parts for message in part]
