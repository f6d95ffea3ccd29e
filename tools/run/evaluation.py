"""The evaluations of a run: greedy, on held-out questions, in both context modes, before and after training."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from tools.run.errors import RunError
from tools.run.fingerprint import fingerprint
from tools.run.search import SearchAccess

CONTEXTS = ("history", "window:1")
REWRITTEN = "rewritten"


def contexts(config: DictConfig) -> tuple[str, ...]:
    """The context modes that are evaluated: both of agents that search, or the one of an agent that writes its prompts."""
    return (REWRITTEN,) if config.agent.context == REWRITTEN else CONTEXTS


def evaluation_settings(config: DictConfig) -> dict[str, Any]:
    """All keys of a config that decide an evaluation, besides its model and data; the context of training is none."""
    settings = {
        key: value
        for key, value in fingerprint(config).items()
        if key.startswith(("agent.", "search.topk", "data.apply_chat_template_kwargs."))
    }
    del settings["agent.context"]
    return settings | {
        "contexts": list(contexts(config)),
        "n": int(config.run.eval_questions),
        "seed": int(config.seed),
    }


def evaluate(
    config: DictConfig,
    model: Path,
    questions: Path,
    access: SearchAccess,
    out: Path,
    *,
    title: str,
    console: Console,
) -> dict[str, dict[str, Any]]:
    """Summaries by mode (`history`, `window1`); what is finished in `out` for the same model is not asked again.

    Raises:
        RunError: with the harness's message.
    """
    from eval.before_after import evaluate_model
    from eval.errors import EvalError
    from tools.search.client import SearchSettings

    agent: dict[str, Any] = OmegaConf.to_container(config.agent, resolve=True)  # type: ignore[assignment]
    data: dict[str, Any] = OmegaConf.to_container(config.data, resolve=True)  # type: ignore[assignment]
    search = (
        SearchSettings(
            access.url,
            topk=int(config.search.topk),
            deadline_s=float(config.search.deadline_s),
            retries=int(config.search.retries),
            token=access.token,
        )
        if access.url
        else None
    )
    try:
        return evaluate_model(
            model,
            questions,
            list(contexts(config)),
            search,
            agent,
            out,
            chat_template_kwargs=data.get("apply_chat_template_kwargs"),
            questions=int(config.run.eval_questions),
            seed=int(config.seed),
            concurrency=int(config.run.eval_concurrency),
            device=str(config.trainer.device),
            tensor_parallel=int(config.actor_rollout_ref.rollout.tensor_model_parallel_size),
            title=title,
            console=console,
        )
    except EvalError as error:
        raise RunError(f"{title}: {error}") from error


def paired(before: Path, after: Path, modes: list[str]) -> dict[str, dict[str, Any]]:
    """For every mode, how many answers only one of the two models got right, and the one-sided McNemar p."""
    from eval.before_after import compare_folders

    return {mode: asdict(compare_folders(before / mode, after / mode)) for mode in modes}
