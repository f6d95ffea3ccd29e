"""For the training run: a model folder on held-out questions in several context modes, and two models paired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.endpoint import EndpointSettings
from eval.model_files import load_tokenizer, model_settings
from eval.paired import Paired, compare
from eval.run import data_settings, evaluate, run_settings
from eval.sample import is_right
from eval.sample_log import SampleLog, read_folder
from eval.tasks import choose, read_questions
from eval.vllm_server import VllmServer, VllmSettings
from mempo.trajectory import ContextMode
from tools.search.client import SearchSettings


def mode_name(context: str) -> str:
    """A context mode as a folder and as a key of summaries: `history`, `window1`."""
    return str(ContextMode.parse(context)).replace(":", "")


def evaluate_model(
    model_dir: Path,
    data: Path,
    contexts: Sequence[str],
    search: SearchSettings | None,
    agent: Mapping[str, Any],
    out_dir: Path,
    *,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    questions: int | None = None,
    seed: int = 0,
    concurrency: int = 32,
    device: str = "auto",
    tensor_parallel: int = 1,
    retry_failed: bool = False,
    title: str = "evaluation",
    console: Console | None = None,
) -> dict[str, dict[str, Any]]:
    """Evaluates greedily in every mode of `contexts`, with one vLLM server for all of them.

    A mode that is finished in `out_dir` for the same model (by hash), data and agent is not run again; an interrupted
    one continues; without a missing sample no server starts.

    Args:
        model_dir: Hugging Face folder with tokenizer.
        data: a `validation.parquet`.
        contexts: e.g. `["history", "window:1"]`; `agent["context"]` is replaced by each.
        agent: the `agent.*` settings, with `max_context_tokens`.
        chat_template_kwargs: options of the chat template, those of training.
        questions: how many, drawn by `seed`; None for all.

    Returns:
        For each mode's `mode_name` its summary (`eval.summary.summarize`).

    Raises:
        EvalError: if anything but a single question fails.
    """
    console = console or Console()
    chosen = choose(read_questions(data), questions, seed)
    model, data_hash = model_settings(model_dir), data_settings(data, chosen)
    placeholder = EndpointSettings("http://127.0.0.1", model_dir.resolve().name)
    logs: dict[str, SampleLog] = {}
    for context in contexts:
        settings = run_settings(
            model=model,
            data=data_hash,
            agent={**agent, "context": str(ContextMode.parse(context))},
            endpoint=placeholder,
            search=search,
            chat_template_kwargs=chat_template_kwargs,
            references=[question.reference for question in chosen],
        )
        logs[mode_name(context)] = SampleLog(out_dir / mode_name(context), settings)
    summaries = {name: log.finished() for name, log in logs.items()}
    open_modes = [
        name for name, summary in summaries.items() if summary is None or (retry_failed and summary["failed"])
    ]
    if open_modes:
        served = VllmSettings(
            model_dir, int(agent["max_context_tokens"]), concurrency, device, tensor_parallel=tensor_parallel
        )
        with VllmServer(served, log=out_dir / "vllm.log", console=console) as server:
            tokenizer = load_tokenizer(str(model_dir))  # seconds of imports, while the server starts
            server.wait()
            for name in open_modes:
                evaluate(
                    chosen,
                    tokenizer=tokenizer,
                    agent=logs[name].settings["agent"],
                    endpoint=EndpointSettings(server.url, server.model, connections=concurrency),
                    search=search,
                    log=logs[name],
                    console=console,
                    chat_template_kwargs=chat_template_kwargs,
                    title=f"{title} {name}",
                    retry_failed=retry_failed,
                    alive=server.check,
                )
    return {name: log.finished() or {} for name, log in logs.items()}


def compare_folders(before: Path, after: Path) -> Paired:
    """Pairs the right answers of two evaluations (the folders of one mode each)."""
    right = [
        {name: is_right(sample) for name, sample in read_folder(folder)[1].items()}
        for folder in (before, after)
    ]
    return compare(right[0], right[1])
