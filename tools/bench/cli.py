"""`mempo bench`: what the parts cost, as ratios measured in one run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tools.bench.reading import ReadingBench, fits
from tools.bench.scoring import ScoringBench, model_folder
from tools.bench.search import SearchBench

app = typer.Typer(no_args_is_help=True, help="Benchmarks: ratios measured in one run, on this machine.")


@app.callback()
def _group() -> None:
    """Benchmarks: ratios measured in one run, on this machine."""


@app.command("scoring")
def scoring_command(
    turns: Annotated[
        list[int], typer.Option(min=2, help="Turns of a trajectory; may be given several times.")
    ] = [  # noqa: B006
        2,
        4,
        8,
        16,
    ],
    model: Annotated[
        Path | None,
        typer.Option(help="Folder of a Hugging Face causal LM; default: a random Qwen2 of 13M parameters."),
    ] = None,
    trajectories: Annotated[int, typer.Option(min=1, help="Trajectories that are scored together.")] = 1,
    repeats: Annotated[int, typer.Option(min=1, help="Timings of each side; their median counts.")] = 5,
    turn: Annotated[int, typer.Option(min=16, help="Tokens of a turn with its observation.")] = 600,
    memory: Annotated[int, typer.Option(min=1, help="Tokens of a memory.")] = 100,
    answer: Annotated[int, typer.Option(min=1, help="Tokens of the answer.")] = 30,
    budget: Annotated[int, typer.Option(min=1, help="Tokens of one forward, on both sides.")] = 4096,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the computation on a CPU.")] = len(
        os.sched_getaffinity(0)
    ),
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    seed: Annotated[int, typer.Option(help="Draws the weights and the tokens.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a list, one object per number of turns.")
    ] = False,
) -> None:
    """Times memory scoring by tree and by one sequence per probe, on the same trajectories in one run.

    Also one plain log-prob pass over the trajectories, which a trainer pays anyway; the share is the tree's time in
    parts of that. Takes some minutes on two cores.

    Example: mempo bench scoring --turns 8 --turns 16
    """
    if dtype not in ("float32", "bfloat16", "float16"):
        raise typer.BadParameter(f"{dtype!r} is none of float32, bfloat16, float16", param_hint="--dtype")
    try:
        folder = model_folder(model)
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error), param_hint="--model") from error
    bench = ScoringBench(
        tuple(turns),
        folder,
        trajectories,
        repeats,
        turn,
        memory,
        answer,
        budget,
        threads,
        dtype,
        device,
        seed,
    )
    results = []
    progress = Console(stderr=True)
    with progress.status("building the model"):
        for result in bench.run():
            results.append(result)
            progress.print(f"{result['turns']} turns: {result['speedup']:.2f} times as fast as the reference")
    if as_json:
        typer.echo(json.dumps(results, indent=1))
    else:
        Console().print(_table(results))


@app.command("search")
def search_command(
    url: Annotated[str, typer.Option(help="Address of a running `mempo search serve`.")],
    index: Annotated[
        Path | None,
        typer.Option(
            help="The server's index: queries come from its passages; bm25s searches it in-process."
        ),
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="Queries instead: one per line, or JSON lines with `question`.")
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="Single-query clients at the same time.")] = 64,
    batch: Annotated[int, typer.Option(min=1, help="Queries per request of the batched measurement.")] = 64,
    batch_clients: Annotated[int, typer.Option(min=1, help="Clients of that measurement.")] = 4,
    seconds: Annotated[float, typer.Option(min=0.1, help="Length of each measurement.")] = 10.0,
    topk: Annotated[int, typer.Option(min=1, help="Results per query.")] = 3,
    seed: Annotated[int, typer.Option(help="Draws the queries.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything, settings included.")] = False,
) -> None:
    """Puts a running server under load: single queries, batches, and plain bm25s in this process to compare.

    Example: mempo search serve --index wiki.index --workers 2, then
    mempo bench search --url http://127.0.0.1:8000 --index wiki.index
    """
    try:
        result = SearchBench(url, index, queries, clients, batch, batch_clients, seconds, topk, seed).run()
    except (OSError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    else:
        table = Table(title=f"Search under load: {url}", show_header=False)
        for name, value in result.items():
            if name != "settings":
                table.add_row(
                    name.replace("_", " "), f"{value:.1f}" if isinstance(value, float) else str(value)
                )
        Console().print(table)


@app.command("read")
def read_command(
    tokens: Annotated[
        list[int], typer.Option(min=1, help="Tokens of a document; may be given several times.")
    ] = [10_000, 100_000, 1_000_000],  # noqa: B006
    chunk: Annotated[int, typer.Option(min=4, help="Tokens of a chunk.")] = 5000,
    memory: Annotated[int, typer.Option(min=1, help="Tokens of a memory.")] = 1024,
    answer: Annotated[int, typer.Option(min=1, help="Tokens of the answer.")] = 1024,
    seed: Annotated[int, typer.Option(help="Draws the documents.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print results and fits.")] = False,
) -> None:
    """Counts what the chunk reader asks of a model that fills every memory: requests, tokens, the longest request.

    Example: mempo bench read --tokens 10000 --tokens 100000 --tokens 1000000
    """
    results = list(ReadingBench(tuple(tokens), chunk, memory, answer, seed).run())
    fitted = fits(results) if len(set(tokens)) > 1 else {}
    if as_json:
        typer.echo(json.dumps({"results": results, "fits": fitted}, indent=1))
        return
    table = Table(title="Reading by the length of the document")
    for name in results[0]:
        table.add_column(name, justify="right")
    for result in results:
        table.add_row(
            *(f"{value:.2f}" if isinstance(value, float) else str(value) for value in result.values())
        )
    Console().print(table)
    for name, fit in fitted.items():
        typer.echo(f"{name} = {fit['slope']:.6g} x document + {fit['intercept']:.4g}   (r2 {fit['r2']:.6f})")


def _table(results: list[dict[str, Any]]) -> Table:
    columns = {
        "turns": "{}",
        "tokens_tree": "{}",
        "tokens_reference": "{}",
        "seconds_tree": "{:.3f}",
        "seconds_reference": "{:.3f}",
        "seconds_pass": "{:.3f}",
        "speedup": "{:.2f}",
        "share_of_logprob_pass": "{:.2f}",
        "max_abs_diff": "{:.1e}",
        "peak_mib_tree": "{:.0f}",
        "peak_mib_reference": "{:.0f}",
    }
    table = Table(title="Memory scoring: tree against one sequence per probe")
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right")
    for result in results:
        table.add_row(
            *("?" if result[name] is None else form.format(result[name]) for name, form in columns.items())
        )
    return table
