"""`mempo data long-context`, `ruler-hqa` and `select`: data for agents that read."""

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
            help="samples.jsonl of `mempo eval reading --setting closed_book`: what it answers rightly is left out."
        ),
    ] = None,
    train: Annotated[int | None, typer.Option(min=0, help="Questions to train on; default the rest.")] = None,
    validation: Annotated[int, typer.Option(min=0, help="Questions to hold out.")] = 100,
    name: Annotated[
        str | None,
        typer.Option(
            help="The rows' data_source. Default: the data set's name; with --train 0, ruler_hqa_N (N documents)."
        ),
    ] = None,
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
            name=name,
        )
        counts = make_long_context(settings)["counts"]
    except (DataError, SchemaError) as error:
        fail(error)
    typer.echo(
        f"{out}: {counts['rows']['train']} train and {counts['rows']['validation']} validation rows among "
        f"{counts['distractors']} paragraphs; {counts['known']} left out as known, "
        f"{counts['gold_too_long']} because their gold paragraphs alone are over --tokens"
    )


def ruler_hqa(
    input: Annotated[Path, typer.Option("--input", help="An eval_N.json of MemAgent's, or of long-context.")],
    out: Out,
    name: Annotated[
        str | None,
        typer.Option(
            help="The rows' data_source. Default: ruler_hqa_N where every `num_docs` is N, otherwise the file's name."
        ),
    ] = None,
) -> None:
    """Read an evaluation set in RULER-HQA's layout (`input`, `context`, `answers`).

    Example: mempo data ruler-hqa --input eval_200.json --out data/ruler_hqa_200
    """
    from tools.data.ruler_hqa import convert_ruler_hqa

    try:
        manifest = convert_ruler_hqa(input, out, name)
    except (DataError, SchemaError) as error:
        fail(error)
    typer.echo(f"{out}: {manifest['counts']['rows']['validation']} rows of {manifest['settings']['name']}")


def select(
    data: Annotated[Path, typer.Option(help="Questions: a parquet file of a data folder.")],
    run: Annotated[
        list[Path],
        typer.Option(
            "--run",
            help="Folder of a `mempo eval run` or `reading` over all of --data, at a temperature above 0; several that "
            "differ in --seed alone.",
        ),
    ],
    out: Out,
    pass_at: Annotated[
        int, typer.Option(min=1, help="Answers that a question must have; a failed request is none.")
    ] = 8,
    low: Annotated[float, typer.Option(help="Lowest pass rate that is kept.")] = 0.1,
    high: Annotated[float, typer.Option(help="Highest pass rate that is kept.")] = 0.9,
    train: Annotated[
        int, typer.Option(min=1, help="Questions to train on, in an order that is frozen.")
    ] = 1000,
    held_out: Annotated[int, typer.Option(min=1, help="Questions to hold out, whatever the results.")] = 500,
    model_revision: Annotated[
        str | None,
        typer.Option(
            help="Of the model that answered, for the manifest: at an endpoint the runs know its name alone."
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Keep the questions that a model sometimes gets right, and hold others out.

    Example: mempo data select --data all/train.parquet --run=runs/s{1..8} --pass-at 8 --out data/fixed
    """
    from tools.data.select import SelectSettings, listed
    from tools.data.select import select as make

    try:
        settings = SelectSettings(data, run, out, pass_at, low, high, train, held_out, seed, model_revision)
        counts = make(settings)["counts"]
    except (DataError, SchemaError) as error:
        fail(error)
    typer.echo(
        f"{out}: {counts['rows']['train']} train and {counts['rows']['validation']} validation rows; "
        f"{counts['fitting']} of {counts['questions'] - counts['rows']['validation']} questions fit, left out: "
        f"{listed(counts['left_out'])}; failed samples: {listed(counts['failed_samples'])}"
    )


def register(app: typer.Typer) -> None:
    """Adds the commands to `mempo data`."""
    app.command("long-context")(long_context)
    app.command("ruler-hqa")(ruler_hqa)
    app.command("select")(select)
