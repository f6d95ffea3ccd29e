"""`mempo view`: the trajectories of a run as one page to read them in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(add_completion=False)


@app.command()
def view(
    run: Annotated[
        Path,
        typer.Argument(
            help="Folder of an evaluation, folder of a training run, or one of its trajectories/step_N.jsonl."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The page to write, e.g. view.html.")],
    limit: Annotated[
        int, typer.Option(min=1, help="Show at most so many trajectories, evenly over the run.")
    ] = 500,
) -> None:
    """Write a page that shows trajectories turn by turn: memory, thought, query, result, answer, and what was scored.

    Filters by outcome and ending, sorts by memory reward or turns, searches the text. `?` on the page tells the keys.
    The page is one file: it opens from disk and needs no network. An existing file is replaced only if this command wrote it.
    """
    from eval.console import fail
    from eval.errors import EvalError
    from eval.run_folder import read_records
    from eval.sealed_file import check_own, write_sealed
    from tools.view.page import spread, viewer_html

    try:
        check_own(out)
        records = read_records(run)
        shown = spread(records, limit)
        write_sealed(out, viewer_html(run.resolve().name, shown, len(records)))
    except (EvalError, OSError) as error:
        fail(error)
    Console().print(f"{len(shown)} of {len(records)} trajectories: {out}", highlight=False)
