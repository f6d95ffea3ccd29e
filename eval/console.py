"""How the commands of `mempo eval` speak: results on standard output, the cause of an error on standard error."""

from __future__ import annotations

from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape


def fail(error: Exception) -> NoReturn:
    """Prints the error and ends the command with exit status 1."""
    Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
    raise typer.Exit(1)
