"""`mempo train`: the same as run_train.sh without the set-up."""

from __future__ import annotations

import typer

from tools.run.__main__ import main

app = typer.Typer(add_completion=False)


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
def train(context: typer.Context) -> None:
    """Trains; takes what run_train.sh takes (`mempo train --help`)."""
    raise typer.Exit(main(context.args))
