"""Sizes under which agents that read are evaluated, by name."""

from __future__ import annotations

from typing import Any

from eval.errors import EvalError

_READER: dict[str, Any] = {
    "name": "chunk_memory",
    "prompt": "published",
    "context": "rewritten",
    "max_question_tokens": 1024,
    "verifier": "boxed_em",
}
_SINGLE: dict[str, Any] = {
    "context": "history",
    "max_turns": 1,
    "max_observation_tokens": 1,  # it observes nothing
    "max_context_tokens": None,  # the model's own window
    "verifier": "boxed_em",
}

# `memagent`: as published; `memagent_short`: as the recipe trains; `memagent_long`: what a model trained short is tested
# with; `full_context`: the whole document in one request; `closed_book`: no document.
SETTINGS: dict[str, dict[str, Any]] = {
    "memagent": _READER
    | {
        "max_observation_tokens": 5000,
        "max_response_tokens": 1024,
        "max_answer_tokens": 1024,
        "max_turns": 2049,
        "max_context_tokens": 8448,
        "verifier": "boxed_exact",
    },
    "memagent_short": _READER
    | {
        "max_question_tokens": 256,
        "max_observation_tokens": 512,
        "max_response_tokens": 128,
        "max_answer_tokens": 64,
        "max_turns": 5,
        "max_context_tokens": 1536,
    },
    "memagent_long": _READER
    | {
        "max_observation_tokens": 2048,
        "max_response_tokens": 1024,
        "max_answer_tokens": 256,
        "max_turns": 65,
        "max_context_tokens": 5632,
    },
    "full_context": _SINGLE | {"name": "full_context", "max_response_tokens": 1024},
    "closed_book": _SINGLE | {"name": "closed_book", "max_response_tokens": 1024},
}


def reading_settings(name: str) -> dict[str, Any]:
    """The `agent.*` settings of that name. Raises EvalError for an unknown one."""
    if name not in SETTINGS:
        raise EvalError(f"--setting is {name!r}; known are {', '.join(SETTINGS)}")
    return dict(SETTINGS[name])
