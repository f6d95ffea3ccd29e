"""`mempo eval report`: evaluations and training runs side by side on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from eval.console import fail
from eval.errors import EvalError

TITLE = "Report"


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of evaluations, or of training runs (with the evaluations in their eval/)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The page to write, e.g. report.html.")],
    markdown: Annotated[Path | None, typer.Option(help="The same numbers as Markdown.")] = None,
) -> None:
    """Show runs on one page: results, pairs, F1 against tokens, objectives, hops, endings, training and memories.

    The page is one file: it opens from disk and needs no network. Of existing files only those that this command wrote are
    replaced.
    """
    from eval.report_page import report_html, report_markdown
    from eval.report_sections import sections
    from eval.run_folder import read_runs
    from eval.sealed_file import check_own, write_sealed

    try:
        check_own(out, *([markdown] if markdown else []))
        evaluations, training = read_runs(runs)
        if not evaluations and not any(run.steps or run.records for run in training):
            raise EvalError(
                f"{', '.join(map(str, runs))}: no step, trajectory or evaluation yet: nothing to show"
            )
        parts = sections(evaluations, training)
        write_sealed(out, report_html(TITLE, parts))
        if markdown is not None:
            write_sealed(markdown, report_markdown(TITLE, parts))
    except (EvalError, OSError) as error:
        fail(error)
    Console().print(f"{len(evaluations)} evaluations, {len(training)} training runs: {out}", highlight=False)
