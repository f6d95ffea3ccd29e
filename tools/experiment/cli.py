"""`mempo experiment`: carries out a protocol, and shows what came of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tools.experiment.errors import ExperimentError

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__, rich_markup_mode=None)


def _fail(error: Exception, code: int = 1) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(code)


@app.command()
def run(
    protocol: Annotated[Path, typer.Argument(help="The protocol (YAML); see docs/experiments.md.")],
    directory: Annotated[
        Path | None, typer.Option("--dir", help="The experiment's folder; runs/experiments/NAME if left out.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check every run's config, print the plan, start nothing.")
    ] = False,
) -> None:
    """Carry out a protocol: all arms of a seed, then the next seed; the same command resumes.

    The protocol is frozen before the first run. Finished runs are skipped, failed ones stay visible and are tried again.
    Ctrl-C ends everything that was started. Exit codes: 0 all runs are done, 1 not, 130 Ctrl-C.

    Example: mempo experiment run configs/experiments/memory_weight.yaml --dry-run
    """
    from rich.console import Console

    from tools.experiment.plan import make_plan
    from tools.experiment.protocol import read_protocol
    from tools.experiment.report import MARKDOWN, PAGE, write_report
    from tools.experiment.results import DONE
    from tools.experiment.runner import Experiment
    from tools.run.places import ROOT
    from tools.run.processes import guarded
    from tools.run.progress import Teller

    try:
        checked = read_protocol(protocol)
        folder = (directory or ROOT / "runs" / "experiments" / checked.name).absolute()
        plan = make_plan(checked, protocol, folder)
        typer.echo(f"{protocol}:\n{plan.text()}")
        problems = plan.problems if dry_run else [*plan.problems, *plan.not_ready()]
        if problems:
            lines = "\n".join(f"  {problem}" for problem in problems)
            raise ExperimentError(f"{len(problems)} problem(s) with the runs of this protocol:\n{lines}")
        if dry_run:
            typer.echo("every run's config is complete and consistent; nothing was started")
            return
        teller = Teller(Console())
        with guarded():
            results = Experiment(plan, teller.say).run()
        write_report(results, folder / PAGE, folder / MARKDOWN)
    except ExperimentError as error:
        raise _fail(error) from error
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command resumes", err=True)
        raise typer.Exit(130) from None
    teller.say(f"{results['verdict']}\nreport: {folder / PAGE}")
    raise typer.Exit(0 if all(each["status"] == DONE for each in results["runs"]) else 1)


@app.command()
def report(
    source: Annotated[Path, typer.Argument(help="An experiment's folder, or the JSON of its results.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print control, primary, verdict and protocol_sha256 as JSON.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The page to write; of a folder, report.html in it if left out.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="The same as Markdown; of a folder, report.md in it if left out.")
    ] = None,
) -> None:
    """Make the report anew, from the results' JSON alone.

    Example: mempo experiment report docs/results/NAME.json --out report.html
    """
    from tools.experiment.report import MARKDOWN, PAGE, write_report
    from tools.experiment.results import headline, read_results

    try:
        results = read_results(source)
        if source.is_dir():
            out, markdown = out or source / PAGE, markdown or source / MARKDOWN
        write_report(results, out, markdown)
    except (ExperimentError, OSError) as error:
        raise _fail(error) from error
    if as_json:
        typer.echo(json.dumps(headline(results), indent=2, ensure_ascii=False))
        return
    typer.echo(results["verdict"])
    for path in (out, markdown):
        if path is not None:
            typer.echo(f"written: {path}")
