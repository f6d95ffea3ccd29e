"""`mempo data`: convert public data sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tools.data import generated_commands, long_commands
from tools.data.console import fail
from tools.data.convert import ConvertSettings, convert
from tools.data.deepresearcher import SOURCES, list_sources
from tools.data.option_groups import command
from tools.data.records import DataError
from tools.data.schema import SchemaError

SHOWN_PROBLEMS = 10

app = typer.Typer(
    no_args_is_help=True,
    help="Public data sets in the layout that training and evaluation read: train.parquet, validation.parquet, "
    "corpus.jsonl (the paragraphs of all questions), supporting.jsonl (gold paragraphs in hop order), manifest.json. "
    "Malformed records are reported by file, line and field.",
)


@dataclass(frozen=True)
class Options:
    """What every converter takes."""

    input: Annotated[
        list[Path],
        typer.Option(
            "--input",
            help="Records: a JSON list, JSON lines or parquet, also .gz; may be given several times.",
        ),
    ]
    out: Annotated[Path, typer.Option(help="Data folder to write.")]
    objectives: Annotated[int, typer.Option(min=1, help="Questions per row, joined by '; '.")] = 1
    seed: Annotated[int, typer.Option(help="Draws the split and the composition.")] = 0
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on malformed records instead of leaving them out.")
    ] = False


@dataclass(frozen=True)
class SplitOptions(Options):
    """What a converter takes that makes a train and a validation split."""

    validation_input: Annotated[
        list[Path] | None, typer.Option(help="Records to validate with, instead of a share of --input.")
    ] = None
    validation_share: Annotated[float, typer.Option(help="Share of the --input questions that validate.")] = (
        0.1
    )


@command(app, "hotpotqa")
def hotpotqa(options: SplitOptions) -> None:
    """HotpotQA, distractor setting, in the official layout or with a list of paragraphs.

    Example: mempo data hotpotqa --input hotpot_train_v1.1.json --validation-input hotpot_dev_distractor_v1.json
    --out data/hotpotqa
    """
    _run("hotpotqa", options)


@command(app, "2wiki")
def twowiki(
    options: SplitOptions,
    aliases: Annotated[
        Path | None, typer.Option(help="The data set's id_aliases.json: further right answers.")
    ] = None,
) -> None:
    """2WikiMultihopQA.

    Example: mempo data 2wiki --input train.json --validation-input dev.json --aliases id_aliases.json --out data/2wiki
    """
    _run("2wikimultihopqa", options, aliases=aliases)


@command(app, "musique")
def musique(options: SplitOptions) -> None:
    """MuSiQue; of the `full` variant, unanswerable questions are counted and left out.

    Example: mempo data musique --input musique_ans_v1.0_train.jsonl --validation-input musique_ans_v1.0_dev.jsonl
    --out data/musique
    """
    _run("musique", options)


@command(app, "jsonl")
def jsonl(
    options: SplitOptions,
    name: Annotated[str, typer.Option(help="Name of the data set, e.g. nq; becomes the rows' data_source.")],
    validation_only: Annotated[
        bool,
        typer.Option("--validation-only", help="All questions into validation.parquet: an evaluation set."),
    ] = False,
) -> None:
    """Questions with answers and without passages: NQ, TriviaQA, PopQA, Bamboogle and the like.

    Records hold `question`, the answers (`answers`, `golden_answers`, `target`, `answer` or `possible_answers`: a string
    or a list of aliases) and may hold an `id`; without one, the question's hash is the id.

    Example: mempo data jsonl --input bamboogle.jsonl --name bamboogle --validation-only --out data/bamboogle
    """
    _run("jsonl", options, name=name, validation_only=validation_only)


@command(app, "deepresearcher")
def deepresearcher(
    options: Options,
    source: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Only this data set, straight into --out; several are mixed. Known: {', '.join(SOURCES.values())}."
        ),
    ] = None,
) -> None:
    """DeepResearcher's test.parquet or dev.parquet: evaluation sets, as one folder per data set inside --out.

    Writes OUT/nq/validation.parquet and so on; with --source one folder, OUT itself. To ask k questions of HotpotQA and
    NQ at once: --source hotpotqa --source nq --objectives k.

    Example: mempo data deepresearcher --input test.parquet --out data/deepresearcher
    """
    if source:
        _run("deepresearcher", options, sources=source, validation_only=True)
        return
    try:
        found = list_sources(options.input)
    except DataError as error:
        fail(error)
    for each in found:
        _run("deepresearcher", options, out=options.out / each, sources=[each], validation_only=True)


long_commands.register(app)
generated_commands.register(app)


def _run(dataset: str, options: Options, out: Path | None = None, **more: Any) -> None:
    """Converts and reports; `more` are settings of one data set."""
    out = out or options.out
    if isinstance(options, SplitOptions):
        more["validation_inputs"] = options.validation_input or []
        more["validation_share"] = options.validation_share
    try:
        manifest = convert(
            ConvertSettings(
                dataset,
                options.input,
                out,
                objectives=options.objectives,
                seed=options.seed,
                strict=options.strict,
                **more,
            )
        )
    except (DataError, SchemaError) as error:
        fail(error)
    _report(manifest, out)


def _report(manifest: dict[str, Any], out: Path) -> None:
    counts, problems = manifest["counts"], manifest["problems"]
    malformed = sum(counts["malformed"].values())
    for problem in problems[:SHOWN_PROBLEMS]:
        typer.echo(f"left out: {problem}", err=True)
    if malformed > SHOWN_PROBLEMS:
        typer.echo(f"left out: {malformed - SHOWN_PROBLEMS} more, see manifest.json", err=True)
    rows = " and ".join(f"{number} {split}" for split, number in counts["rows"].items())
    unusable = dict(counts["unusable"])
    others = unusable.pop("other_source", 0)
    records = f"{counts['records'] - others} records" + (f" ({others} of other data sets)" if others else "")
    typer.echo(
        f"{out}: {rows} rows from {records} ({malformed} malformed, {sum(unusable.values())} unusable), "
        f"{counts['passages']} passages"
    )


if __name__ == "__main__":
    app()
