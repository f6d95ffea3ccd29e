"""`mempo world`: the fictional encyclopedia that the default run trains on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="A seeded fictional encyclopedia: pages, multi-hop questions about them, and a tokenizer with an untrained model "
    "small enough for a CPU.",
)


@app.callback()
def _commands() -> None:
    """Keeps `build` a command of its own."""


@app.command("build")
def build(
    out: Annotated[Path, typer.Option(help="Folder to write; one built from the same settings is kept.")],
    seed: Annotated[int, typer.Option(help="Draws facts, questions and first weights.")] = 0,
    train: Annotated[int | None, typer.Option(min=1, help="Training questions.")] = None,
    validation: Annotated[int | None, typer.Option(min=1, help="Held-out questions.")] = None,
    mixture: Annotated[
        str | None,
        typer.Option(
            help="Kinds of question and their weights: hops per objective, e.g. `1:1,2:2,3:1,1+1:1`."
        ),
    ] = None,
) -> None:
    """Write train.parquet, validation.parquet, corpus.jsonl, manifest.json and model/.

    Example: mempo world build --out data/world --seed 1
    """
    from dataclasses import replace

    from tools.world.build import build_world
    from tools.world.settings import WorldSettings

    settings = WorldSettings(seed=seed)
    try:
        settings = replace(
            settings,
            train=train or settings.train,
            validation=validation or settings.validation,
            mixture=parse_mixture(mixture) if mixture else settings.mixture,
        )
        build_world(out, settings)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(str(out))


def parse_mixture(text: str) -> dict[str, float]:
    """Reads `1:1,2:2`. Raises ValueError."""
    try:
        return {
            shape.strip(): float(weight) for shape, weight in (part.split(":") for part in text.split(","))
        }
    except ValueError:
        raise ValueError(f"mixture {text!r} is malformed: write e.g. 1:1,2:2,3:1,1+1:1") from None


if __name__ == "__main__":
    app()
