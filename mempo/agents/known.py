"""What is known of an agent by its name, before one is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

from mempo.prompts import ONE_REQUEST, reading_prompt, system_prompt

Texts = dict[str, str | list[str]]


@dataclass(frozen=True)
class KnownAgent:
    """One entry of `agent.name`.

    Attributes:
        context: `agent.context` where nothing is said.
        boxed: whether its answers stand in a box; None if only the built agent tells.
        reads: whether every question of it needs a document; None if only the built agent tells.
        texts: `agent.prompt` → our words around what it is shown, by a name for messages. Raises ValueError for an unknown
            prompt.
    """

    context: str
    boxed: bool | None
    reads: bool | None
    texts: Callable[[str], Texts]


def known_agent(name: str) -> KnownAgent:
    """The agent of that name, or what holds for every agent of your own (`module:function`)."""
    return KNOWN.get(name, _OWN)


def _system(agent: str, prompt: str) -> Texts:
    return {"prompt": system_prompt(prompt, agent)}


def _reading(prompt: str) -> Texts:
    parts = asdict(reading_prompt(prompt))
    return {f"prompt.{name}": text if isinstance(text, str) else list(text) for name, text in parts.items()}


def _one_request(agent: str, prompt: str) -> Texts:
    return {"prompt": list(ONE_REQUEST[agent])}  # there is one, whatever `agent.prompt` says


# Without a memory only the history carries anything over; a reader writes its prompts anew.
KNOWN = {
    "self_memory": KnownAgent("window:1", False, False, partial(_system, "self_memory")),
    "react": KnownAgent("history", False, False, partial(_system, "react")),
    "rag": KnownAgent("history", False, False, partial(_system, "rag")),
    "chunk_memory": KnownAgent("rewritten", True, True, _reading),
    "full_context": KnownAgent("history", True, True, partial(_one_request, "full_context")),
    "closed_book": KnownAgent("history", True, False, partial(_one_request, "closed_book")),
}
_OWN = KnownAgent("window:1", None, None, partial(_system, "your own"))
