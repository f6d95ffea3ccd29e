"""`mempo eval score`: the scorer of training and evaluation over any file of predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from eval.console import fail
from eval.errors import EvalError

_NAMES = {
    "em": "EM",
    "f1": "F1",
    "sub_em": "sub-EM",
    "em_sum": "EM, sum over objectives",
    "f1_sum": "F1, sum over objectives",
    "sub_em_sum": "sub-EM, sum over objectives",
    "judge": "judge, as stored",
}
# Counts of `eval.json_answers`, shown where there are any.
_TREATED = {
    "numbers": "numbers, read as their digits",
    "booleans": "booleans, read as yes or no",
    "blank_aliases": "blank gold answers, left out",
    "without_gold": "records without gold, scored as wrong",
}


def score(
    file: Annotated[Path, typer.Argument(help="JSON lines, or a JSON list of objects.")],
    prediction_field: Annotated[
        str, typer.Option(help="Field with the predicted answer; dotted where nested: output.answer.")
    ],
    gold_field: Annotated[
        str,
        typer.Option(
            help="Field with the gold: an answer, a list of aliases, or one list of aliases per question."
        ),
    ],
    judge_field: Annotated[
        str | None,
        typer.Option(
            help="Field with a judge's verdict (true, false or 0 to 1): its mean is reported beside."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Score predictions of any system with the scorer of training: EM, F1 and sub-EM with 95 % intervals.

    A prediction that is null, absent or blank counts as wrong, and so does a record whose gold is blank. Numbers are read as
    their digits (42.0 as 42), true and false as yes and no, blank aliases are left out; each is counted. Several gold lists
    make several questions, whose predictions are separated by semicolons. Intervals are percentile bootstrap over records.

    Example: mempo eval score rollouts.jsonl --prediction-field pred_ans --gold-field answer --judge-field gpt4o_output
    """
    from eval.predictions import read_predictions, score_predictions

    try:
        result = score_predictions(read_predictions(file, prediction_field, gold_field, judge_field))
    except EvalError as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        Console().print(_table(file, result))


def _table(file: Path, result: dict[str, Any]) -> Table:
    table = Table(title=f"{file.name}: {result['n']} predictions")
    for name in ("", "mean", "95 % interval"):
        table.add_column(name, justify="right" if name else "left")
    for name, title in _NAMES.items():
        if name in result:
            low, high = result[f"{name}_ci"]
            table.add_row(title, f"{result[name]:.3f}", f"{low:.3f} to {high:.3f}")
    if "judge" in result and result["judge_n"] != result["n"]:
        table.add_row("judged", str(result["judge_n"]))
    table.add_row("empty", str(result["empty"]))
    table.add_row("empty after normalisation", str(result["empty_after_normalisation"]))
    for name, title in _TREATED.items():
        if result[name]:
            table.add_row(title, str(result[name]))
    if result["without_gold"]:
        table.caption = f"without gold, scored as wrong: {', '.join(result['without_gold_at'])}" + (
            " …" if result["without_gold"] > len(result["without_gold_at"]) else ""
        )
    return table
