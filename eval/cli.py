"""`mempo eval`: run an agent over held-out questions, and compare two runs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eval.errors import EvalError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Measure an agent on held-out questions.

The agent is the very code that training runs; only the model behind it changes.

Start a search server, evaluate, train, evaluate again, compare:

    mempo search serve --corpus DATA/corpus.jsonl --port 8000

    mempo eval run --model MODEL_FOLDER --data DATA/validation.parquet --search-url http://127.0.0.1:8000 --out runs/before

    mempo eval compare runs/before runs/after
""",
)
console = Console()


@app.command()
def run(
    model: Annotated[
        str,
        typer.Option(
            help="Model folder (with --endpoint local), or the name under which the endpoint serves it."
        ),
    ],
    data: Annotated[
        Path, typer.Option(help="validation.parquet, as `mempo data` and `mempo world` write it.")
    ],
    search_url: Annotated[str, typer.Option(help="Search server, e.g. http://127.0.0.1:8000.")],
    out: Annotated[
        Path, typer.Option(help="Folder for samples and summary; the same command continues in it.")
    ],
    endpoint: Annotated[
        str,
        typer.Option(
            help="`local` starts vLLM on the model folder; otherwise the URL of an API with /v1/completions."
        ),
    ] = "local",
    context: Annotated[
        str, typer.Option(help="What a turn sees: `window:k` (the last k turns and the memory) or `history`.")
    ] = "window:1",
    questions: Annotated[
        int | None, typer.Option(min=1, help="How many questions, drawn by --seed; default all.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Draws the questions, and seeds requests if --temperature > 0.")
    ] = 0,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    prompt: Annotated[
        str, typer.Option(help="System prompt: brief, evaluation or published.")
    ] = "evaluation",
    force_memory_prefix: Annotated[
        bool,
        typer.Option(
            "--force-memory-prefix", help="Open every turn with <mem>, as the published recipe does."
        ),
    ] = False,
    agent: Annotated[str, typer.Option(help="Agent name, or module:function.")] = "self_memory",
    max_turns: Annotated[int, typer.Option(min=1, help="Turns per question.")] = 10,
    max_response_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens the model may write per turn.")
    ] = 1024,
    max_observation_tokens: Annotated[int, typer.Option(min=1, help="Tokens of one search result.")] = 1024,
    max_context_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help="Prompt and response together; default: the model folder's limit, at most 32768."
        ),
    ] = None,
    topk: Annotated[int, typer.Option(min=1, help="Passages per search.")] = 3,
    tokenizer: Annotated[str | None, typer.Option(help="Tokenizer folder; default: --model.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Questions in flight.")] = 32,
    deadline: Annotated[float, typer.Option(help="Seconds per turn, retries included.")] = 600.0,
    retries: Annotated[
        int, typer.Option(min=0, help="Further attempts after 429, 5xx or a lost connection.")
    ] = 6,
    api_key_env: Annotated[
        str, typer.Option(help="Environment variable with the API key.")
    ] = "OPENAI_API_KEY",
    search_token_env: Annotated[
        str | None, typer.Option(help="Environment variable with the search server's token.")
    ] = None,
    device: Annotated[str, typer.Option(help="For --endpoint local: auto, cpu or cuda.")] = "auto",
    tensor_parallel: Annotated[int, typer.Option(min=1, help="For --endpoint local: GPUs per model.")] = 1,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed", help="Ask the questions again whose samples failed in an earlier start."
        ),
    ] = False,
) -> None:
    """Answer held-out questions and score them: EM, F1, format, turns, tokens.

    Writes to --out: `samples.jsonl` (one line per question as it finishes, with the whole trajectory),
    `summary.json`, `settings.json`. Interrupt it at will: the same command continues, and a folder refuses settings
    other than the ones it was begun with. A question that fails counts as wrong and is reported by cause.
    """
    settings = {
        "name": agent,
        "prompt": prompt,
        "context": context,
        "max_turns": max_turns,
        "max_response_tokens": max_response_tokens,
        "max_observation_tokens": max_observation_tokens,
        "max_context_tokens": max_context_tokens,
        "force_memory_prefix": force_memory_prefix,
    }
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        summary = _run(
            model, data, search_url, out, endpoint, questions, seed, temperature, settings, topk, tokenizer,
            concurrency, deadline, retries, api_key_env, search_token_env, device, tensor_parallel, retry_failed,
        )  # fmt: skip
    except (EvalError, ValueError) as error:
        _fail(error)
    except KeyboardInterrupt:
        console.print("interrupted; the same command continues")
        raise typer.Exit(130) from None
    console.print(summary_table(f"{model}, {context}", summary))


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="Folder of the first evaluation (before).")],
    b: Annotated[Path, typer.Argument(help="Folder of the second evaluation (after).")],
    subject: Annotated[
        list[str] | None,
        typer.Option(help="Setting that may differ, e.g. agent.context; repeatable. Default: model."),
    ] = None,
) -> None:
    """Pair two evaluations of the same questions: who got which right, and the exact McNemar p for B > A.

    Refuses runs that differ in anything but the subject of the comparison.
    """
    from eval.before_after import compare_folders
    from eval.sample_log import differences, read_folder

    try:
        settings_a, settings_b = read_folder(a)[0], read_folder(b)[0]
        odd = differences(settings_a, settings_b, ignore=subject or ["model"])
        if odd:
            raise EvalError(
                f"the runs differ in {'; '.join(odd)}. If that is the subject, name it with --subject"
            )
        paired = compare_folders(a, b)
    except EvalError as error:
        _fail(error)
    table = Table(title=f"{paired.n} questions")
    for name in ("both right", "only A", "only B", "neither", "B − A", "p (B > A)"):
        table.add_column(name, justify="right")
    counts = (paired.both, paired.only_before, paired.only_after, paired.neither)
    table.add_row(*map(str, counts), f"{paired.difference:+.3f}", f"{paired.p:.4g}")
    console.print(table)


def summary_table(title: str, summary: dict[str, Any]) -> Table:
    """The main numbers of a run."""
    table = Table(title=title, show_header=False)
    table.add_row("questions", str(summary["n"]))
    table.add_row("EM", f"{summary['em']:.3f} ± {summary['em_se']:.3f}")
    table.add_row("F1", f"{summary['f1']:.3f} ± {summary['f1_se']:.3f}")
    table.add_row("sub-EM", f"{summary['sub_em']:.3f}")
    table.add_row("right format", f"{summary['format_share']:.3f}")
    table.add_row("turns, searches", f"{summary['turns']:.2f}, {summary['searches']:.2f}")
    table.add_row("tokens: total, peak", f"{summary['total_tokens']:.0f}, {summary['peak_tokens']:.0f}")
    for name in ("stop", "format_reasons", "failures"):
        if summary[name]:
            table.add_row(name.replace("_", " "), ", ".join(f"{k} {v}" for k, v in summary[name].items()))
    return table


def _run(
    model: str,
    data: Path,
    search_url: str,
    out: Path,
    endpoint: str,
    questions: int | None,
    seed: int,
    temperature: float,
    agent: dict[str, Any],
    topk: int,
    tokenizer: str | None,
    concurrency: int,
    deadline: float,
    retries: int,
    api_key_env: str,
    search_token_env: str | None,
    device: str,
    tensor_parallel: int,
    retry_failed: bool,
) -> dict[str, Any]:
    import os

    from eval.endpoint import EndpointSettings
    from eval.model_files import load_tokenizer, model_settings, read_config
    from eval.run import data_settings, evaluate, run_settings
    from eval.sample_log import SampleLog
    from eval.tasks import choose, read_questions
    from eval.vllm_server import VllmServer, VllmSettings
    from tools.search.client import SearchSettings

    local = endpoint == "local"
    if agent["max_context_tokens"] is None:
        if not local:
            raise EvalError(
                "with an endpoint of your own, give --max-context-tokens: the model's window there"
            )
        agent["max_context_tokens"] = min(
            32768, int(read_config(Path(model)).get("max_position_embeddings", 32768))
        )
    chosen = choose(read_questions(data), questions, seed)
    name = Path(model).resolve().name if local else model
    token = os.environ.get(search_token_env) if search_token_env else None
    search = SearchSettings(search_url, topk=topk, token=token)

    def at(url: str) -> EndpointSettings:
        return EndpointSettings(url, name, temperature, seed, deadline, retries, api_key_env, concurrency)

    identity = model_settings(Path(model)) if local else {"name": model}
    settings = run_settings(
        model=identity, data=data_settings(data, chosen), agent=agent,
        endpoint=at("http://127.0.0.1" if local else endpoint), search=search,
    )  # fmt: skip
    log = SampleLog(out, settings)
    finished = log.finished()
    if finished is not None and not (retry_failed and finished["failed"]):
        console.print(f"{out} is finished; nothing to do")
        return finished
    common: dict[str, Any] = {
        "agent": agent,
        "search": search,
        "log": log,
        "console": console,
        "retry_failed": retry_failed,
    }
    if not local:
        return evaluate(chosen, tokenizer=load_tokenizer(tokenizer or model), endpoint=at(endpoint), **common)
    served = VllmSettings(
        Path(model), agent["max_context_tokens"], concurrency, device, tensor_parallel=tensor_parallel
    )
    with VllmServer(served, log=out / "vllm.log", console=console) as server:
        loaded = load_tokenizer(tokenizer or model)  # seconds of imports, while the server starts
        server.wait()
        return evaluate(chosen, tokenizer=loaded, endpoint=at(server.url), alive=server.check, **common)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _fail(error: Exception) -> NoReturn:
    Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
    raise typer.Exit(1)
