"""`agent.json` of a released model: the settings that its agent was trained with, so that it is evaluated with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.errors import EvalError
from eval.sample_log import TEMPLATE
from mempo.agents.known import known_agent
from mempo.prompts import format_passages, format_tool_response

NAME = "agent.json"
VERSION = 1
# What an evaluation takes where neither the command nor a released model says otherwise.
DEFAULTS: dict[str, Any] = {
    "name": "self_memory",
    "prompt": "evaluation",
    "context": None,  # by agent
    "max_turns": 10,
    "max_response_tokens": 1024,
    "max_observation_tokens": 1024,
    "max_context_tokens": None,  # by model
    "force_memory_prefix": False,
    "topk": 3,
}
_OPTIONS = {"name": "agent"}  # where an option is not called as its key


@dataclass(frozen=True)
class AgentFile:
    """What `agent.json` says.

    Attributes:
        settings: at least the keys of `DEFAULTS`, nothing open.
        texts: the words around the model that belong to this version of ours, by a name for messages.
        template: options of the chat template; none in a file of an earlier version.
    """

    path: Path
    settings: dict[str, Any]
    texts: dict[str, Any]
    template: dict[str, Any]

    def check_texts(self) -> None:
        """Raises EvalError if this version of ours would show the model other words than it was trained with."""
        now = shown_texts(self.settings)
        odd = sorted(name for name in {*self.texts, *now} if now.get(name) != self.texts.get(name))
        if odd:
            raise EvalError(
                f"{self.path}: {', '.join(odd)} is worded otherwise in this version of mempo: use the one that made "
                "the release (release.json names it), or say --override-agent"
            )


def shown_texts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The words that an agent of these settings sees besides the question; no prompt where `agent.prompt` names none."""
    texts: dict[str, Any] = {
        "passages": format_passages([("Title", "Text."), ("Title", "Text.")]),
        "tool_response": format_tool_response("Text."),
    }
    with suppress(ValueError):
        texts |= known_agent(str(settings["name"])).texts(str(settings["prompt"]))
    return texts


def read_agent_file(folder: Path) -> AgentFile | None:
    """The `agent.json` of a model folder, or None if there is none.

    Raises:
        EvalError: it is not one of ours, naming the key.
    """
    path = folder / NAME
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise EvalError(f"{path} is not readable JSON: {error}") from error
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise EvalError(
            f"{path}: version {VERSION} is expected; use the version of mempo that made the release"
        )
    try:
        settings = {**content["agent"], "topk": content["search"]["topk"]}
        texts = dict(content["texts"])
        template = dict(content.get(TEMPLATE, {}))
    except (KeyError, TypeError) as error:
        raise EvalError(f"{path} is incomplete: {error!r}") from error
    missing = sorted(DEFAULTS.keys() - settings.keys())
    if missing:
        raise EvalError(f"{path}: agent.{missing[0]} is missing")
    return AgentFile(path, settings, texts, template)


def choose_settings(
    given: Mapping[str, Any], folders: list[Path], *, override: bool = False
) -> dict[str, Any]:
    """The settings of an evaluation: what is given by hand, else what the released model says, else our defaults.

    Args:
        given: by the keys of `DEFAULTS`; None where nothing was given.
        folders: where an `agent.json` may lie; the first one counts.
        override: options may differ from what the model was trained with.

    Raises:
        EvalError: an option differs from the model's, and `override` is not set.
    """
    by_hand = {name: value for name, value in given.items() if value is not None}
    file = _first(folders)
    if file is None:
        return {**DEFAULTS, **by_hand}
    if not override:
        odd = [
            f"--{_OPTIONS.get(name, name).replace('_', '-')} is {value}, the model's is {file.settings[name]}"
            for name, value in by_hand.items()
            if value != file.settings[name]
        ]
        if odd:
            raise EvalError(
                f"{file.path} tells how this model was trained: {'; '.join(odd)}. Leave the options out, or say "
                "--override-agent"
            )
        file.check_texts()
    return {**file.settings, **by_hand}


def choose_template_options(
    given: Mapping[str, Any], folders: list[Path], *, override: bool
) -> dict[str, Any]:
    """The chat template's options of an evaluation: those of the released model, and what is given by hand over them.

    Args:
        folders: where an `agent.json` may lie; the first one counts.
        override: options may differ from what the model was trained with.

    Raises:
        EvalError: an option differs from the model's, and `override` is not set.
    """
    file = _first(folders)
    if file is None:
        return dict(given)
    if not override:
        for name, value in given.items():
            if value != file.template.get(name):
                raise EvalError(
                    f"{file.path} tells how this model was trained: --chat-template-option {name} is {value!r}, the "
                    f"model's is {file.template.get(name)!r}. Leave the option out, or say --override-agent"
                )
    return {**file.template, **given}


def _first(folders: list[Path]) -> AgentFile | None:
    return next(filter(None, map(read_agent_file, folders)), None)
