"""`mempo eval probe`: how well the memories of a finished evaluation support the answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eval.console import fail
from eval.errors import EvalError
from eval.options import ApiKeyEnv, Deadline, Retries, Tokenizer

if TYPE_CHECKING:
    from eval.endpoint import EndpointSettings

# Of `mempo.memory_scores.MemorySettings`: what a run of training measures by default.
RULES = {"likelihood": "either", "aliases": "best"}


def probe(
    run: Annotated[Path, typer.Argument(help="Folder of an evaluation.")],
    model: Annotated[
        str,
        typer.Option(
            help="Scoring model: a folder, or with --endpoint the name under which it is served. It has to have the "
            "tokenizer of the evaluated model."
        ),
    ],
    endpoint: Annotated[
        str | None, typer.Option(help="URL of an API that returns log-probs of prompt tokens (vLLM's).")
    ] = None,
    tokenizer: Tokenizer = None,
    likelihood: Annotated[
        str, typer.Option(help="Which answer tokens count: either, independent, both or all.")
    ] = RULES["likelihood"],
    aliases: Annotated[
        str, typer.Option(help="Which gold wording: best (the likeliest, the same on both sides) or first.")
    ] = RULES["aliases"],
    device: Annotated[str, typer.Option(help="For a folder: auto, cpu or cuda.")] = "auto",
    concurrency: Annotated[int, typer.Option(min=1, help="For an endpoint: requests in flight.")] = 32,
    deadline: Deadline = 600.0,
    retries: Retries = 6,
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
) -> None:
    """Score the memories of an evaluation: P(answer | memory) and P(answer | history), turn by turn.

    Agents that read show no history; their memories are compared with the memory before, the first with none.

    Writes `probe.jsonl` and `probe_summary.json` beside the samples; the same command continues after an interruption.
    One scoring model over the memories of several checkpoints compares these memories.

    Example: mempo eval probe runs/before --model MODEL_FOLDER
    """
    from eval.endpoint import EndpointSettings

    console = Console()
    rules = {"likelihood": likelihood, "aliases": aliases}
    try:
        if endpoint is None:
            summary = probe_with_folder(run, Path(model), rules, device, tokenizer=tokenizer, console=console)
        else:
            settings = EndpointSettings(
                endpoint,
                model,
                deadline_s=deadline,
                retries=retries,
                api_key_env=api_key_env,
                connections=concurrency,
            )
            summary = probe_with_endpoint(run, settings, rules, tokenizer=tokenizer, console=console)
    except (EvalError, ValueError) as error:
        fail(error)
    console.print(probe_report(f"memories of {run}", summary))


def probe_with_folder(
    run: Path, folder: Path, rules: dict[str, Any], device: str, *, tokenizer: str | None, console: Console
) -> dict[str, Any]:
    """`eval.memory_probe.probe_memories` by a model folder.

    Args:
        rules: of `mempo.memory_scores.MemorySettings`.
    """
    from eval.local_scorer import LocalScorer
    from eval.memory_probe import probe_memories
    from eval.model_files import load_tokenizer, model_settings, read_config
    from eval.vllm_server import resolve_device
    from mempo.memory_scores import MemorySettings

    identity = model_settings(folder)
    positions = int(read_config(folder).get("max_position_embeddings", MemorySettings.max_positions))
    return probe_memories(
        run,
        lambda: LocalScorer(folder, resolve_device(device), console),
        tokenizer=load_tokenizer(tokenizer or str(folder)),
        model=identity,
        memory=MemorySettings(**rules, max_positions=positions),
        console=console,
    )


def probe_with_endpoint(
    run: Path, endpoint: EndpointSettings, rules: dict[str, Any], *, tokenizer: str | None, console: Console
) -> dict[str, Any]:
    """`eval.memory_probe.probe_memories` by a model behind an endpoint.

    Args:
        rules: of `mempo.memory_scores.MemorySettings`.
    """
    import asyncio

    from eval.endpoint import Endpoint
    from eval.memory_probe import probe_memories
    from eval.model_files import load_tokenizer
    from eval.prompt_logprobs import EndpointScorer
    from eval.sample_log import read_folder
    from mempo.memory_scores import MemorySettings

    async def window() -> int | None:
        async with Endpoint(endpoint) as connection:
            await connection.check()
            return await connection.window()

    served = asyncio.run(window()) or int(read_folder(run)[0]["agent"]["max_context_tokens"])
    return probe_memories(
        run,
        lambda: EndpointScorer(endpoint),
        tokenizer=load_tokenizer(tokenizer or endpoint.model),
        model={"name": endpoint.model},
        memory=MemorySettings(**rules, max_positions=served - 1),  # a request asks for one token besides
        console=console,
    )


def probe_report(title: str, summary: dict[str, Any]) -> Table | str:
    """Probabilities by turn, or in words why there are none."""
    if not summary["n"]:
        return f"{escape(title)}: nothing to compare; {_why_nothing(summary)}"
    reference = summary["reference"]
    table = Table(title=title)
    against = f"P(answer | {reference.replace('_', ' ')})"
    for name in ("turn", "memories", "P(answer | memory)", against, "memory helps"):
        table.add_column(name, justify="right")
    for name, values in [*summary["by_turn"].items(), ("all", summary)]:
        shares = [values[key] for key in ("p_memory", f"p_{reference}", "helps")]
        table.add_row(name, str(values["n"]), *("–" if share is None else f"{share:.3f}" for share in shares))
    notes = _notes({**summary["statuses"], **summary["unscored"]}, leave_out=("scored", "first"))
    table.caption = f"not scored: {notes}" if notes else None
    return table


def _why_nothing(summary: Mapping[str, Any]) -> str:
    causes = []
    if summary["unscored"]:
        causes.append(f"questions whose scoring failed: {_notes(summary['unscored'])}")
    if summary["turns"]:
        causes.append(f"memories without a score: {_notes(summary['statuses'])}")
    if summary["statuses"]["first"]:
        causes.append("a first memory has no history to be compared with")
    return "; ".join(causes) or "no finished question has a turn that was asked for a memory"


def _notes(counts: Mapping[str, int], leave_out: Collection[str] = ()) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count and name not in leave_out)
