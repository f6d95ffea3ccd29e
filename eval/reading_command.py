"""`mempo eval reading`: an agent that reads long documents over held-out questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from eval.console import fail
from eval.errors import EvalError
from eval.summary_table import summary_table
from mempo.verifiers import BOXED


def reading(
    model: Annotated[
        str,
        typer.Option(
            help="Model folder (with --endpoint local), or the name under which the endpoint serves it."
        ),
    ],
    data: Annotated[
        Path, typer.Option(help="validation.parquet of `mempo data long-context`, `needles` or `ruler-hqa`.")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for samples and summary; the same command continues in it.")
    ],
    setting: Annotated[
        str,
        typer.Option(help="memagent, memagent_short, memagent_long, full_context or closed_book."),
    ] = "memagent_long",
    endpoint: Annotated[
        str,
        typer.Option(
            help="`local` starts vLLM on the model folder; otherwise the URL of an OpenAI-style API."
        ),
    ] = "local",
    api: Annotated[str, typer.Option(help="`completions`, `chat` or `auto`.")] = "auto",
    max_context_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="The model's window, for full_context and closed_book at an endpoint."),
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=1, help="How many questions, drawn by --seed; default all.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Draws the questions, and seeds requests if --temperature > 0.")
    ] = 0,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    tokenizer: Annotated[str | None, typer.Option(help="Tokenizer folder; default: --model.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Questions in flight.")] = 32,
    deadline: Annotated[float, typer.Option(help="Seconds per turn, retries included.")] = 600.0,
    retries: Annotated[
        int, typer.Option(min=0, help="Further attempts after 429, 5xx or a lost connection.")
    ] = 6,
    api_key_env: Annotated[
        str, typer.Option(help="Environment variable with the API key.")
    ] = "OPENAI_API_KEY",
    device: Annotated[str, typer.Option(help="For --endpoint local: auto, cpu or cuda.")] = "auto",
    tensor_parallel: Annotated[int, typer.Option(min=1, help="For --endpoint local: GPUs per model.")] = 1,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask the questions again whose samples failed.")
    ] = False,
) -> None:
    """Read documents, answer in a box, and report every verifier by its name.

    A document that has more chunks than the setting allows is a failed sample, which counts as wrong.

    Example: mempo eval reading --model MODEL --data data/ruler_hqa_200/validation.parquet --out runs/hqa_200
    """
    from eval.reading_settings import reading_settings
    from eval.run_plan import RunPlan, carry_out

    console = Console()
    try:
        agent = reading_settings(setting)
        if max_context_tokens is not None:
            agent["max_context_tokens"] = max_context_tokens
        plan = RunPlan(
            model=model,
            data=data,
            out=out,
            endpoint=endpoint,
            api=api,
            agent=agent,
            search=None,
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
            probe_memory=False,
        )
        summary = carry_out(plan, console)
    except (EvalError, ValueError) as error:
        fail(error)
    except KeyboardInterrupt:
        console.print("interrupted; the same command continues")
        raise typer.Exit(130) from None
    console.print(summary_table(f"{model}, {setting}", summary))
    verdicts = ", ".join(f"{name} {summary[name]:.3f}" for name in BOXED if name in summary)
    missing = summary.get("missing_box", 0)
    console.print(f"right answers: {verdicts}; answers without a box: {missing} of {summary['n']}")
