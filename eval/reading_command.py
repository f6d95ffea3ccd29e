"""`mempo eval reading`: an agent that reads long documents over held-out questions."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from eval.console import continuable
from eval.option_groups import takes_options
from eval.options import RunOptions
from eval.summary_table import summary_table
from mempo.verifiers import BOXED


@takes_options
def reading(
    options: RunOptions,
    setting: Annotated[
        str,
        typer.Option(help="memagent, memagent_short, memagent_long, full_context or closed_book."),
    ] = "memagent_long",
    max_context_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="The model's window, for full_context and closed_book at an endpoint."),
    ] = None,
) -> None:
    """Read documents, answer in a box, and report every verifier by its name.

    The questions come from `mempo data long-context`, `needles`, `variable-tracking`, `common-words`, `frequent-words` or
    `ruler-hqa`. A document that has more chunks than the setting allows is a failed sample, which counts as wrong.

    Example: mempo eval reading --model MODEL --data data/ruler_hqa_200/validation.parquet --out runs/hqa_200
    """
    from eval.reading_settings import reading_settings
    from eval.run_plan import RunPlan, carry_out

    console = Console()
    with continuable(console):
        agent = reading_settings(setting)
        if max_context_tokens is not None:
            agent["max_context_tokens"] = max_context_tokens
        # The setting is another one than the model was trained with: its agent.json binds nothing here.
        summary = carry_out(RunPlan.of(options, agent, None, override=True), console)
    console.print(summary_table(f"{options.model}, {setting}", summary))
    verdicts = ", ".join(f"{name} {summary[name]:.3f}" for name in BOXED if name in summary)
    missing = summary.get("missing_box", 0)
    console.print(f"right answers: {verdicts}; answers without a box: {missing} of {summary['n']}")
