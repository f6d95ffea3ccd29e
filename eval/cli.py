"""`mempo eval`: its commands, each in a module of its own."""

from __future__ import annotations

import typer

from eval.compare_command import HELP as COMPARE_HELP
from eval.compare_command import compare
from eval.probe_command import probe
from eval.reading_command import reading
from eval.report_command import report
from eval.run_command import run
from eval.score_command import score
from eval.summary_table import summary_table

__all__ = ["app", "compare", "summary_table"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Measure an agent on held-out questions.

The agent is the very code that training runs; only the model behind it changes.

Start a search server, evaluate, train, evaluate again, compare:

    mempo search serve --corpus DATA/corpus.jsonl --port 8000

    mempo eval run --model MODEL_FOLDER --data DATA/validation.parquet --search-url http://127.0.0.1:8000 --out runs/before

    mempo eval compare runs/before runs/after
""",
)
app.command()(run)
app.command(help=COMPARE_HELP)(compare)
app.command()(probe)
app.command()(reading)
app.command()(report)
app.command()(score)
