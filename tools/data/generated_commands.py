"""`mempo data needles`, `variable-tracking`, `common-words` and `frequent-words`: texts made by rule, for agents that read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tools.data.console import fail
from tools.data.option_groups import command
from tools.data.records import DataError

if TYPE_CHECKING:
    from tools.data.generated_text import TextMaker


@dataclass(frozen=True)
class Options:
    """What every kind of text takes."""

    out: Annotated[Path, typer.Option(help="Data folder to write.")]
    characters: Annotated[
        int | None, typer.Option(min=1, help="At most this many characters per text; as many as fit.")
    ] = None
    tokens: Annotated[int | None, typer.Option(min=1, help="Instead: at most this many tokens per text.")] = (
        None
    )
    tokenizer: Annotated[str | None, typer.Option(help="Counts them: a Hugging Face folder or name.")] = None
    questions: Annotated[
        int, typer.Option(min=1, help="Rows of validation.parquet, each with a text of its own.")
    ] = 100
    seed: Annotated[
        int, typer.Option(help="Draws everything that is drawn; the same seed gives the same bytes.")
    ] = 0


def needles(
    options: Options,
    kind: Annotated[str, typer.Option(help="single, multi_key or multi_value.")] = "single",
    needles: Annotated[
        int | None, typer.Option(min=1, help="Needles per text: 1 for single, otherwise 4 where not given.")
    ] = None,
) -> None:
    """Numbers hidden in a text of no interest (RULER): the number of a key, or all its numbers in the order of the text.

    Example: mempo data needles --kind multi_value --characters 128000 --out data/needles
    """
    from tools.data.needles import Needles

    _write(options, lambda: Needles.of(kind, needles))


def variable_tracking(
    options: Options,
    chains: Annotated[int, typer.Option(min=1, help="Chains of assignments; one of them is asked for.")] = 1,
    hops: Annotated[
        int, typer.Option(min=1, help="Variables of a chain that take their value from the one before.")
    ] = 4,
) -> None:
    """Assignments hidden in a text of no interest (RULER): which variables hold a value, in the order of the text?

    Example: mempo data variable-tracking --chains 4 --hops 4 --characters 128000 --out data/variables
    """
    from tools.data.variable_tracking import VariableTracking

    _write(options, lambda: VariableTracking(chains, hops))


def common_words(
    options: Options,
    repeats: Annotated[int, typer.Option(min=1, help="How often each of the ten common words occurs.")] = 30,
    other_repeats: Annotated[int, typer.Option(min=1, help="How often each other word occurs.")] = 3,
) -> None:
    """A list of made-up words (RULER): which ten occur most often, in alphabetical order?

    Example: mempo data common-words --tokens 32000 --tokenizer MODEL_FOLDER --out data/common_words
    """
    from tools.data.common_words import CommonWords

    _write(options, lambda: CommonWords(repeats, other_repeats))


def frequent_words(
    options: Options,
    exponent: Annotated[
        float, typer.Option(help="Of Zipf's law: the smaller, the closer the numbers of the words.")
    ] = 2.0,
) -> None:
    """Made-up words that follow Zipf's law (RULER): which three occur most often, the most frequent first?

    Example: mempo data frequent-words --exponent 2 --characters 128000 --out data/frequent_words
    """
    from tools.data.frequent_words import FrequentWords

    _write(options, lambda: FrequentWords(exponent))


def register(app: typer.Typer) -> None:
    """Adds the commands to `mempo data`."""
    command(app, "needles")(needles)
    command(app, "variable-tracking")(variable_tracking)
    command(app, "common-words")(common_words)
    command(app, "frequent-words")(frequent_words)


def _write(options: Options, maker: Callable[[], TextMaker]) -> None:
    from tools.data.generated_set import GeneratedSet, write_generated_set
    from tools.data.text_size import TextSize

    try:
        size = TextSize(options.characters, options.tokens, options.tokenizer)
        made = GeneratedSet(maker(), size, options.questions, options.seed)
        write_generated_set(options.out, made)
    except DataError as error:
        fail(error)
    typer.echo(f"{options.out}: {options.questions} rows")
