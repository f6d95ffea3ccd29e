"""How the commands of `mempo eval` speak: results on standard output, the cause of an error on standard error."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from eval.errors import EvalError


def fail(error: Exception) -> NoReturn:
    """Prints the error and ends the command with exit status 1."""
    Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
    raise typer.Exit(1)


@contextmanager
def continuable(console: Console) -> Iterator[None]:
    """Around an evaluation: an error or an interruption (SIGTERM too) ends the command with a word to the user."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except (EvalError, ValueError) as error:
        fail(error)
    except KeyboardInterrupt:
        console.print("interrupted; the same command continues")
        raise typer.Exit(130) from None


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
