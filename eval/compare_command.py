"""`mempo eval compare`: which of two runs is better, by pairs of answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from eval.console import fail
from eval.equivalence import RULE as EQUIVALENCE_RULE
from eval.errors import EvalError
from eval.verdict import RULE

if TYPE_CHECKING:
    from eval.comparison import Comparison

HELP = f"""Pair two evaluations of the same questions: who got which right, how far EM and F1 differ, and what that shows.

Refuses runs that differ in anything (inputs by hash, task, prompt, settings) but the subject of the comparison.

{RULE}

{EQUIVALENCE_RULE}"""


def compare(
    a: Annotated[Path, typer.Argument(help="Folder of the first evaluation (before).")],
    b: Annotated[Path, typer.Argument(help="Folder of the second evaluation (after).")],
    subject: Annotated[
        list[str] | None,
        typer.Option(help="Setting that may differ, e.g. agent.context; repeatable. Default: model."),
    ] = None,
    margin: Annotated[
        float, typer.Option(help="Largest loss of EM that would not matter, e.g. 0.03; fix it beforehand.")
    ] = 0.0,
    equivalence: Annotated[
        float | None,
        typer.Option(
            help="Largest difference of --metric, either way, that would not matter, e.g. 0.03; fix it beforehand."
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Number that --equivalence is about: em (the default), f1, sub_em, turns, total_tokens or any other of "
            "summary.json."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Pairs two evaluations; `HELP` is what the user reads, with the rule as `eval.verdict` states it."""
    from eval.comparison import compare_runs

    try:
        if metric is not None and equivalence is None:
            raise EvalError(f"--metric {metric} is what --equivalence is about: give that margin too")
        found = compare_runs(
            a, b, subjects=subject or [], margin=margin, within=equivalence, metric=metric or "em"
        )
    except EvalError as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        _print(found, Console())


def _print(found: Comparison, console: Console) -> None:
    pairs = found.pairs
    table = Table(title=f"{pairs.n} questions")
    for name in ("both right", "only A", "only B", "neither", "B − A", "p (B > A)", "p (two-sided)"):
        table.add_column(name, justify="right")
    counts = (pairs.both, pairs.only_before, pairs.only_after, pairs.neither)
    table.add_row(*map(str, counts), f"{pairs.difference:+.3f}", f"{pairs.p:.4g}", f"{found.p_two_sided:.4g}")
    console.print(table)
    means = Table()
    for name in ("", "A", "B", "B − A, 95 % interval"):
        means.add_column(name, justify="right")
    for name, each in (("EM", found.em), ("F1", found.f1)):
        shift = f"{each.value:+.3f} ({each.low:+.3f} to {each.high:+.3f})"
        means.add_row(name, f"{each.a:.3f}", f"{each.b:.3f}", shift)
    console.print(means)
    if any(found.failed):
        console.print(f"failed questions, counted as wrong: {found.failed[0]} in A, {found.failed[1]} in B")
    console.print(f"B is [bold]{found.verdict.value}[/bold] (EM, margin {found.margin:g})", highlight=False)
    same = found.equivalence
    if same is not None:
        console.print(
            f"A and B are [bold]{same.verdict.value}[/bold] ({same.metric}, margin {same.margin:g}): {same.a:.4g} and "
            f"{same.b:.4g} over {same.questions} questions, B − A {same.value:+.4g}, 90 % interval {same.low:+.4g} to "
            f"{same.high:+.4g}",
            highlight=False,
            soft_wrap=True,
        )
