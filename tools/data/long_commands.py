"""`mempo data long-context`, `needles`, `ruler-hqa` and `select`: data for agents that read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tools.data.console import fail
from tools.data.records import DataError
from tools.data.schema import SchemaError

Out = Annotated[Path, typer.Option(help="Data folder to write.")]
Seed = Annotated[
    int, typer.Option(help="Draws everything that is drawn; the same seed gives the same bytes.")
]


def long_context(
    input: Annotated[
        list[Path], typer.Option("--input", help="Records with paragraphs; may be given several times.")
    ],
    out: Out,
    dataset: Annotated[str, typer.Option(help="hotpotqa, 2wikimultihopqa or musique.")] = "hotpotqa",
    documents: Annotated[
        int | None, typer.Option(min=1, help="Paragraphs per document: 50, 100, … 6400.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Instead: at most this many tokens per document.")
    ] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Counts them: a Hugging Face folder or name.")] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option(help="Further distractors, `{title, text}` lines; long documents need many."),
    ] = None,
    known: Annotated[
        list[Path] | None,
        typer.Option(
            help="samples.jsonl of `mempo eval run --agent closed_book`: what it answers rightly is left out."
        ),
    ] = None,
    train: Annotated[int | None, typer.Option(min=0, help="Questions to train on; default the rest.")] = None,
    validation: Annotated[int, typer.Option(min=0, help="Questions to hold out.")] = 100,
    seed: Seed = 0,
) -> None:
    """Hide the gold paragraphs of each question among distractors (RULER's question answering); the places are recorded.

    Example: mempo data long-context --input hotpot_dev_distractor_v1.json --documents 200 --train 0 --out data/hqa_200
    """
    from tools.data.long_context import LongContextSettings, make_long_context

    try:
        settings = LongContextSettings(
            dataset,
            input,
            out,
            documents=documents,
            tokens=tokens,
            tokenizer=tokenizer,
            corpora=corpus or [],
            known=known or [],
            train=train,
            validation=validation,
            seed=seed,
        )
        counts = make_long_context(settings)["counts"]
    except (DataError, SchemaError) as error:
        fail(error)
    typer.echo(
        f"{out}: {counts['rows']['train']} train and {counts['rows']['validation']} validation rows among "
        f"{counts['distractors']} paragraphs; {counts['known']} left out as known"
    )


def needles(
    out: Out,
    kind: Annotated[str, typer.Option(help="single, multi_key or multi_value.")] = "single",
    characters: Annotated[int, typer.Option(min=100, help="About the length of each text.")] = 32000,
    needles: Annotated[int, typer.Option(min=1, help="Needles per text (not for single).")] = 4,
    questions: Annotated[int, typer.Option(min=1, help="Rows of validation.parquet.")] = 100,
    seed: Seed = 0,
) -> None:
    """Numbers hidden in a text of no interest (RULER): a check outside of the training distribution.

    Example: mempo data needles --kind multi_value --characters 128000 --out data/needles
    """
    from tools.data.manifest import write_manifest
    from tools.data.needles import NeedleSettings, needle_rows
    from tools.data.schema import write_rows

    try:
        settings = NeedleSettings(kind, characters, needles)
        write_rows(out / "validation.parquet", needle_rows(settings, questions, seed))
    except (DataError, SchemaError) as error:
        fail(error)
    facts = {"dataset": f"needle_{kind}", "seed": seed, "settings": vars(settings)}
    write_manifest(out, [], [out / "validation.parquet"], facts)
    typer.echo(f"{out}: {questions} rows")


def ruler_hqa(
    input: Annotated[Path, typer.Option("--input", help="An eval_N.json of MemAgent's, or of long-context.")],
    out: Out,
) -> None:
    """Read an evaluation set in RULER-HQA's layout (`input`, `context`, `answers`).

    Example: mempo data ruler-hqa --input eval_200.json --out data/ruler_hqa_200
    """
    from tools.data.manifest import write_manifest
    from tools.data.ruler_hqa import read_ruler_hqa
    from tools.data.schema import write_rows

    try:
        count = write_rows(out / "validation.parquet", read_ruler_hqa(input))
    except (DataError, SchemaError) as error:
        fail(error)
    write_manifest(out, [input], [out / "validation.parquet"], {"dataset": "ruler_hqa"})
    typer.echo(f"{out}: {count} rows")


def select(
    data: Annotated[Path, typer.Option(help="Questions: a parquet file of a data folder.")],
    run: Annotated[
        list[Path],
        typer.Option(
            "--run",
            help="Folder of a `mempo eval run` over them at a temperature; several, with other seeds.",
        ),
    ],
    out: Out,
    pass_at: Annotated[int, typer.Option(min=1, help="Answers that a question must have.")] = 8,
    low: Annotated[float, typer.Option(help="Lowest pass rate that is kept.")] = 0.1,
    high: Annotated[float, typer.Option(help="Highest pass rate that is kept.")] = 0.9,
    train: Annotated[
        int, typer.Option(min=1, help="Questions to train on, in an order that is frozen.")
    ] = 1000,
    held_out: Annotated[int, typer.Option(min=1, help="Questions to hold out, whatever the results.")] = 500,
    seed: Seed = 0,
) -> None:
    """Keep the questions that a model sometimes gets right, and hold others out.

    Example: mempo data select --data all/train.parquet --run r1 --run r2 … --run r8 --pass-at 8 --out data/fixed
    """
    from tools.data.select import SelectSettings
    from tools.data.select import select as make

    try:
        counts = make(SelectSettings(data, run, out, pass_at, low, high, train, held_out, seed))["counts"]
    except (DataError, SchemaError) as error:
        fail(error)
    typer.echo(f"{out}: {counts['rows']}; {counts['fitting']} of {counts['rated']} rated questions fit")


def register(app: typer.Typer) -> None:
    """Adds the commands to `mempo data`."""
    app.command("long-context")(long_context)
    app.command("needles")(needles)
    app.command("ruler-hqa")(ruler_hqa)
    app.command("select")(select)
