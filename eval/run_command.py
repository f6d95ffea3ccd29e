"""`mempo eval run`: an agent over held-out questions."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from eval.console import fail
from eval.errors import EvalError
from eval.summary_table import summary_table


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
            help="`local` starts vLLM on the model folder; otherwise the URL of an OpenAI-style API."
        ),
    ] = "local",
    api: Annotated[
        str,
        typer.Option(
            help="`completions` sends token ids, `chat` sends messages; `auto` takes the first where the endpoint does."
        ),
    ] = "auto",
    agent: Annotated[
        str | None,
        typer.Option(
            help="self_memory (the default), react (no memory), rag (one search), or module:function. This and the other "
            "settings of the agent come from the model's agent.json, if it is a release."
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            help="What a turn sees: `window:k` (the last k turns and the memory) or `history`. Default: window:1, and "
            "history for agents without a memory."
        ),
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=1, help="How many questions, drawn by --seed; default all.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Draws the questions, and seeds requests if --temperature > 0.")
    ] = 0,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    prompt: Annotated[
        str | None,
        typer.Option(help="System prompt: brief, evaluation or published. Default: evaluation."),
    ] = None,
    force_memory_prefix: Annotated[
        bool | None,
        typer.Option(
            "--force-memory-prefix/--no-force-memory-prefix",
            help="Open every turn with <mem>, as the published recipe does.",
        ),
    ] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Turns per question. Default: 10.")] = None,
    max_response_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens the model may write per turn. Default: 1024.")
    ] = None,
    max_observation_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of one search result. Default: 1024.")
    ] = None,
    max_context_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help="Prompt and response together; default: the model folder's limit, at most 32768."
        ),
    ] = None,
    topk: Annotated[int | None, typer.Option(min=1, help="Passages per search. Default: 3.")] = None,
    override_agent: Annotated[
        bool,
        typer.Option(
            "--override-agent", help="Settings given here may differ from those in the model's agent.json."
        ),
    ] = False,
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
    probe_memory: Annotated[
        bool,
        typer.Option(
            "--probe-memory", help="Score the memories at the end, by the same model (`mempo eval probe`)."
        ),
    ] = False,
) -> None:
    """Answer held-out questions and score them: EM, F1, format, turns, tokens.

    Writes to --out: `samples.jsonl` (one line per question as it finishes, with the whole trajectory),
    `summary.json`, `settings.json`. Interrupt it at will: the same command continues, and a folder refuses settings
    other than the ones it was begun with. A question that fails counts as wrong and is reported by cause.
    """
    from eval.agent_file import choose_settings
    from eval.run_plan import RunPlan, carry_out
    from tools.search.client import SearchSettings

    console = Console()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        given = {
            "name": agent,
            "prompt": prompt,
            "context": context,
            "max_turns": max_turns,
            "max_response_tokens": max_response_tokens,
            "max_observation_tokens": max_observation_tokens,
            "max_context_tokens": max_context_tokens,
            "force_memory_prefix": force_memory_prefix,
            "topk": topk,
        }
        folders = [Path(each) for each in (model, tokenizer) if each]
        settings = choose_settings(given, folders, override=override_agent)
        passages = int(settings.pop("topk"))
        plan = RunPlan(
            model=model,
            data=data,
            out=out,
            endpoint=endpoint,
            api=api,
            agent=settings,
            search=SearchSettings(
                search_url,
                topk=passages,
                token=os.environ.get(search_token_env) if search_token_env else None,
            ),
            questions=questions,
            seed=seed,
            temperature=temperature,
            tokenizer=tokenizer,
            concurrency=concurrency,
            deadline=deadline,
            retries=retries,
            api_key_env=api_key_env,
            device=device,
            tensor_parallel=tensor_parallel,
            retry_failed=retry_failed,
            probe_memory=probe_memory,
        )
        summary = carry_out(plan, console)
    except (EvalError, ValueError) as error:
        fail(error)
    except KeyboardInterrupt:
        console.print("interrupted; the same command continues")
        raise typer.Exit(130) from None
    console.print(summary_table(f"{model}, {settings['name']}", summary))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
