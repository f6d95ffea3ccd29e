"""`mempo replay`: rebuilds a step's rows and compares them with what was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tools.run.errors import RunError

app = typer.Typer(add_completion=False)


@app.command()
def replay(
    step: Annotated[int, typer.Argument(min=1, help="Training step.")],
    run: Annotated[Path, typer.Option(help="Run folder, e.g. runs/cpu-world.")],
) -> None:
    """Rebuilds the rows of a step from its stored trajectories, and compares them bit for bit.

    A step stores run.sample_trajectories of its trajectories; only these are rebuilt.

    Exits with 1 if a row differs or cannot be compared, or if there is none. Example: mempo replay 3 --run runs/memagent_cpu-reading
    """
    from tools.run.replay import replay as rebuilt
    from tools.run.replay import trained

    try:
        found, of = list(rebuilt(run, step)), trained(run, step)
    except RunError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    if not found:
        typer.echo(
            f"error: {run / 'trajectories'}/step_{step}.jsonl holds no trajectory: nothing to compare",
            err=True,
        )
        raise typer.Exit(1)
    for entry in found:
        for problem in entry.problems:
            typer.echo(f"{entry.session}: {problem}", err=True)
    odd = sum(bool(entry.problems) for entry in found)
    count, rows = f"{len(found)}", f"{sum(entry.rebuilt for entry in found)}"
    if of is not None:
        count, rows = f"{count} of {of.trajectories}", f"{rows} of {of.rows}"
    typer.echo(f"step {step}: {count} trajectories, {rows} rows rebuilt, {odd} trajectories differ")
    if of is None:
        typer.echo(f"how many the step trained on is not known: {run / 'metrics.jsonl'} has no counts of it")
    elif len(found) < of.trajectories:
        typer.echo(
            f"the others were not stored: start or resume the run with run.sample_trajectories={of.trajectories} or more to "
            "keep all of a step"
        )
    alone = sum(entry.stored is None for entry in found)
    if alone:
        typer.echo(
            f"{alone} trajectories cannot be compared: the run is of an earlier version, which kept no digests of its rows",
            err=True,
        )
    raise typer.Exit(1 if odd or alone else 0)
