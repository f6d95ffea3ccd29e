"""The report of an experiment: one HTML page, and the same numbers as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.experiment.errors import ExperimentError
from tools.experiment.sections import sections

PAGE, MARKDOWN = "report.html", "report.md"


def write_report(results: Mapping[str, Any], page: Path | None, markdown: Path | None) -> None:
    """Writes what is asked for; the page is one file that needs no network.

    Raises:
        ExperimentError: a file of that name is there and is none of ours.
    """
    from eval.errors import EvalError
    from eval.report_page import report_html, report_markdown
    from eval.sealed_file import write_sealed

    title, parts = f"Experiment {results['protocol']['name']}", sections(results)
    try:
        if page is not None:
            write_sealed(page, report_html(title, parts))
        if markdown is not None:
            write_sealed(markdown, report_markdown(title, parts))
    except EvalError as error:
        raise ExperimentError(str(error)) from error
