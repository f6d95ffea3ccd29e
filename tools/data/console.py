"""How a `mempo data` command ends when no data can be made."""

from __future__ import annotations

from typing import NoReturn

import typer


def fail(error: Exception) -> NoReturn:
    """Writes the message to standard error and ends the command with exit status 1."""
    typer.echo(f"error: {error}", err=True)
    raise typer.Exit(1) from error
