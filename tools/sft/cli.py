"""`mempo sft`: demonstrations without a teacher model, and a short SFT loop for small models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tools.sft.settings import SftSettings

app = typer.Typer(
    no_args_is_help=True,
    help="Cold start: trajectories written by rule from known supporting facts, and SFT on them. The rows also feed "
    "verl's SFT trainer (column `messages`), which the GPU recipes use.",
)

Seed = Annotated[int, typer.Option(help="Draws worlds, questions, habits and the order of training.")]


@app.command("oracle")
def oracle(
    data: Annotated[Path, typer.Option(help="Data folder: `mempo world build`, or `mempo data hotpotqa`.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; default DATA/sft.parquet. One that this command wrote is replaced."
        ),
    ] = None,
    prompt: Annotated[
        str, typer.Option(help="System prompt; has to be the one of RL (agent.prompt).")
    ] = "brief",
    context: Annotated[
        list[str] | None,
        typer.Option(
            help="Context modes to write rows for, `history` or `window:k`; may be given several times."
        ),
    ] = None,
    demonstrations: Annotated[int | None, typer.Option(help="Trajectories (worlds only).")] = None,
    hasty: Annotated[
        float | None,
        typer.Option(help="Share that answers after the first search although a hop is open (worlds only)."),
    ] = None,
    forgetful: Annotated[
        float | None,
        typer.Option(help="Share that drops a found answer from memory, in joint questions (worlds only)."),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Write demonstrations as chat rows.

    On a world every fifty trajectories get a world of their own: a model that trains on them learns to read, not the
    facts. On HotpotQA-style data each gold paragraph becomes a search by its title.

    Example: mempo sft oracle --data data/hotpotqa --prompt evaluation --context history
    """
    from tools.sft.oracle import write_oracle

    settings = SftSettings().oracle
    world = settings.world
    habits = replace(
        world.habits,
        hasty=world.habits.hasty if hasty is None else hasty,
        hasty_long=world.habits.hasty_long if hasty is None else hasty,
        forgetful=world.habits.forgetful if forgetful is None else forgetful,
    )
    world = replace(world, demonstrations=demonstrations or world.demonstrations, habits=habits)
    settings = replace(
        settings,
        prompt=prompt,
        contexts=dict.fromkeys(context, 1) if context else settings.contexts,
        world=world,
    )
    target = out or data / "sft.parquet"
    try:
        count = write_oracle(data, target, settings, seed)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(f"{target}: {count} rows")


@app.command("train")
def train(
    rows: Annotated[Path, typer.Option(help="An sft.parquet.")],
    model: Annotated[Path, typer.Option(help="Hugging Face folder to start from, e.g. DATA/model.")],
    out: Annotated[
        Path, typer.Option(help="Folder for the trained model; one built from the same input is kept.")
    ],
    steps: Annotated[int | None, typer.Option(help="Updates on demonstrations.")] = None,
    drill_steps: Annotated[
        int | None,
        typer.Option(help="Updates on copying drills before them; 0 for a model that is trained already."),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak rate of AdamW (embeddings, norms).")
    ] = None,
    matrix_learning_rate: Annotated[
        float | None, typer.Option(help="Peak rate of Muon (weight matrices).")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Padded tokens per batch.")] = None,
    seed: Seed = 0,
) -> None:
    """Train a small model on demonstrations on this machine's CPU.

    Loss on what the assistant writes only. The same seed gives the same weights on the same machine and threads.

    Example: mempo sft train --rows DIR/sft.parquet --model DIR/model --out DIR/cold
    """
    from tools.sft.cold_start import train_folder
    from tools.sft.progress import bar

    given: dict[str, Any] = {
        "steps": steps,
        "drill_steps": drill_steps,
        "learning_rate": learning_rate,
        "matrix_learning_rate": matrix_learning_rate,
        "max_tokens": max_tokens,
    }
    settings = replace(
        SftSettings().train, **{name: value for name, value in given.items() if value is not None}
    )
    try:
        with bar("cold start") as report:
            train_folder(rows, model, out, settings, seed, report)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(str(out))


if __name__ == "__main__":
    app()
