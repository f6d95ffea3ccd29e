"""`mempo eval run`: an agent over held-out questions."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from rich.console import Console

from eval.console import continuable
from eval.option_groups import takes_options
from eval.options import RunOptions
from eval.summary_table import summary_table


@takes_options
def run(
    options: RunOptions,
    search_url: Annotated[str, typer.Option(help="Search server, e.g. http://127.0.0.1:8000.")],
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
    prompt: Annotated[
        str | None,
        typer.Option(help="System prompt: brief, evaluation or published. Default: evaluation."),
    ] = None,
    force_memory_prefix: Annotated[
        bool | None,
        typer.Option(
            "--force-memory-prefix/--no-force-memory-prefix",
            help="Open every turn with `<mem>`, as the published recipe does.",
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
    search_token_env: Annotated[
        str | None, typer.Option(help="Environment variable with the search server's token.")
    ] = None,
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
    other than the ones it was begun with. A question that fails counts as wrong and is reported by cause; if all failed, or the
    first ones were all refused in the same words, the command ends with exit status 1.
    """
    from eval.agent_file import choose_settings
    from eval.run_plan import RunPlan, carry_out
    from tools.search.client import SearchSettings

    console = Console()
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
    with continuable(console):
        settings = choose_settings(given, options.folders, override=override_agent)
        search = SearchSettings(
            search_url,
            topk=int(settings.pop("topk")),
            token=os.environ.get(search_token_env) if search_token_env else None,
        )
        plan = RunPlan.of(options, settings, search, override=override_agent, probe_memory=probe_memory)
        summary = carry_out(plan, console)
    console.print(summary_table(f"{options.model}, {settings['name']}", summary))
