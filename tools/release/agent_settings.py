"""`agent.json` of a release: what the agent was trained with, in the form that `mempo eval run` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tools.release.errors import ReleaseError

# The turn's grammar of the agents that search, for readers in other languages; `mempo.tags` parses it.
TAGS = {
    "self_memory": ["mem", "think", "search", "answer"],
    "react": ["think", "search", "answer"],
    "rag": ["think", "answer"],
}


def agent_settings(config: DictConfig) -> dict[str, Any]:
    """The content of `agent.json`.

    Args:
        config: the run's; `agent`, `search`, `memory` and the chat template's options in `data` are read.

    Raises:
        ReleaseError: a setting that an evaluation needs is missing, naming it.
    """
    from eval.agent_file import DEFAULTS, VERSION, shown_texts
    from eval.sample_log import TEMPLATE

    agent: dict[str, Any] = OmegaConf.to_container(config.agent, resolve=True)  # type: ignore[assignment]
    template = OmegaConf.select(config, "data.apply_chat_template_kwargs") or {}
    missing = [name for name in DEFAULTS if name != "topk" and agent.get(name) is None]
    if missing:
        raise ReleaseError(f"config.yaml of the run: agent.{missing[0]} is not set")
    return {
        "version": VERSION,
        "agent": agent,
        "tags": TAGS.get(str(agent["name"]), []),
        "search": {"topk": int(config.search.topk)},
        "texts": shown_texts(agent),
        TEMPLATE: OmegaConf.to_container(OmegaConf.create(template), resolve=True),
        # What the memory advantage was computed with; an evaluation does not need it.
        "memory": OmegaConf.to_container(config.memory, resolve=True),
    }


def agent_problems(folder: Path) -> list[str]:
    """What is wrong with the `agent.json` of a release."""
    from eval.agent_file import NAME, read_agent_file
    from eval.errors import EvalError

    try:
        return [] if read_agent_file(folder) else [f"{NAME} is missing"]
    except EvalError as error:
        return [str(error)]
