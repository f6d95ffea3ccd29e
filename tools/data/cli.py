"""`mempo data`: convert public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tools.data.convert import ConvertSettings, convert
from tools.data.records import DataError
from tools.data.schema import SchemaError

SHOWN_PROBLEMS = 10

app = typer.Typer(
    no_args_is_help=True,
    help="Public data sets in the layout that training reads: train.parquet, validation.parquet, corpus.jsonl (the "
    "paragraphs of all questions), supporting.jsonl (gold paragraphs in hop order), manifest.json. "
    "Malformed records are reported by file, line and field.",
)

Input = Annotated[
    list[Path],
    typer.Option("--input", help="Records, a JSON list or JSON lines; may be given several times."),
]
Out = Annotated[Path, typer.Option(help="Data folder to write.")]
ValidationInput = Annotated[
    list[Path] | None, typer.Option(help="Records to validate with, instead of a share of --input.")
]
ValidationShare = Annotated[float, typer.Option(help="Share of the --input questions that validate.")]
Objectives = Annotated[int, typer.Option(min=1, help="Questions per row, joined by '; '.")]
Seed = Annotated[int, typer.Option(help="Draws the split and the composition.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Fail on malformed records instead of leaving them out.")
]
Aliases = Annotated[Path | None, typer.Option(help="The data set's id_aliases.json: further right answers.")]


@app.command("hotpotqa")
def hotpotqa(
    input: Input,
    out: Out,
    validation_input: ValidationInput = None,
    validation_share: ValidationShare = 0.1,
    objectives: Objectives = 1,
    seed: Seed = 0,
    strict: Strict = False,
) -> None:
    """HotpotQA, distractor setting, in the official layout or with a list of paragraphs.

    Example: mempo data hotpotqa --input hotpot_train_v1.1.json --validation-input hotpot_dev_distractor_v1.json
    --out data/hotpotqa
    """
    _run("hotpotqa", input, out, validation_input, validation_share, objectives, seed, strict)


@app.command("2wiki")
def twowiki(
    input: Input,
    out: Out,
    validation_input: ValidationInput = None,
    validation_share: ValidationShare = 0.1,
    objectives: Objectives = 1,
    seed: Seed = 0,
    strict: Strict = False,
    aliases: Aliases = None,
) -> None:
    """2WikiMultihopQA.

    Example: mempo data 2wiki --input train.json --validation-input dev.json --aliases id_aliases.json --out data/2wiki
    """
    _run("2wikimultihopqa", input, out, validation_input, validation_share, objectives, seed, strict, aliases)


@app.command("musique")
def musique(
    input: Input,
    out: Out,
    validation_input: ValidationInput = None,
    validation_share: ValidationShare = 0.1,
    objectives: Objectives = 1,
    seed: Seed = 0,
    strict: Strict = False,
) -> None:
    """MuSiQue; of the `full` variant, unanswerable questions are counted and left out.

    Example: mempo data musique --input musique_ans_v1.0_train.jsonl --validation-input musique_ans_v1.0_dev.jsonl
    --out data/musique
    """
    _run("musique", input, out, validation_input, validation_share, objectives, seed, strict)


def _run(
    dataset: str,
    inputs: list[Path],
    out: Path,
    validation_inputs: list[Path] | None,
    validation_share: float,
    objectives: int,
    seed: int,
    strict: bool,
    aliases: Path | None = None,
) -> None:
    try:
        settings = ConvertSettings(
            dataset, inputs, out, validation_inputs or [], validation_share, objectives, seed, strict, aliases
        )
        manifest = convert(settings)
    except (DataError, SchemaError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    _report(manifest, out)


def _report(manifest: dict[str, Any], out: Path) -> None:
    counts, problems = manifest["counts"], manifest["problems"]
    malformed = sum(counts["malformed"].values())
    for problem in problems[:SHOWN_PROBLEMS]:
        typer.echo(f"left out: {problem}", err=True)
    if malformed > SHOWN_PROBLEMS:
        typer.echo(f"left out: {malformed - SHOWN_PROBLEMS} more, see manifest.json", err=True)
    typer.echo(
        f"{out}: {counts['rows']['train']} train and {counts['rows']['validation']} validation rows from "
        f"{counts['records']} records ({malformed} malformed, {sum(counts['unusable'].values())} unusable), "
        f"{counts['passages']} passages"
    )


if __name__ == "__main__":
    app()
