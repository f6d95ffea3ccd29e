"""`mempo release`: make, check and publish releases of models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tools.release.options import Public, Push, Yes

app = typer.Typer(add_completion=False)


@app.command()
def release(
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder of a run (its latest step is taken), or of one step: .../global_step_N."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The release's folder; its name is the model's.")] = None,
    check: Annotated[Path | None, typer.Option(help="A release to verify, offline.")] = None,
    dtype: Annotated[
        str, typer.Option(help="Of the weights: auto (as training saved them), fp32 or bf16.")
    ] = "auto",
    results: Annotated[
        list[Path] | None,
        typer.Option(help="Evaluations for the card; may be given several times. Default: the run's own."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="The run's data folder, for questions and the card. Default: where the run had it."
        ),
    ] = None,
    questions: Annotated[
        int, typer.Option(min=1, help="Held-out questions to put through the agent, with data at hand.")
    ] = 8,
    vllm: Annotated[
        bool, typer.Option("--vllm/--no-vllm", help="Serve the release to test it; the card says if not.")
    ] = True,
    device: Annotated[str, typer.Option(help="For vLLM: auto, cpu or cuda.")] = "auto",
    push: Push = None,
    yes: Yes = False,
    public: Public = False,
) -> None:
    """Turn a checkpoint into a Hugging Face release that has been loaded, served and compared.

    Make one: mempo release --checkpoint runs/cpu-world --out releases/cpu-world

    Verify one: mempo release --check releases/cpu-world

    Publish one: mempo release --out releases/cpu-world --push ORG/NAME, and again with --yes
    """
    if check is not None:
        verify(check)
        return
    if out is None or (checkpoint is None and push is None):
        raise typer.BadParameter("give --checkpoint and --out, or --check, or --out and --push")
    if checkpoint is not None:
        _make(checkpoint, out, dtype, results or [], data, questions, vllm, device)
    if push is not None:
        publish(out, push, yes=yes, public=public)


def verify(folder: Path) -> None:
    """Prints what is wrong with a release and ends the command, or says that it is whole."""
    from tools.release.check import release_problems

    problems = release_problems(folder)
    if problems:
        fail("\n".join(problems))
    typer.echo(f"{folder} is as it was released")


def publish(folder: Path, repository: str, *, yes: bool, public: bool) -> None:
    """Prints what a push sends, and sends it if `yes`."""
    from tools.release.errors import ReleaseError
    from tools.release.push import plan_upload, send

    try:
        upload = plan_upload(folder, repository, private=not public)
        typer.echo(upload.text())
        if not yes:
            typer.echo("nothing was sent: --yes uploads it")
            return
        typer.echo(f"uploaded: {send(upload)}")
    except ReleaseError as error:
        fail(str(error))


def fail(message: str) -> NoReturn:
    """Ends the command with a message."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)


def _make(
    checkpoint: Path,
    out: Path,
    dtype: str,
    results: list[Path],
    data: Path | None,
    questions: int,
    vllm: bool,
    device: str,
) -> None:
    from rich.console import Console

    from tools.release.errors import ReleaseError
    from tools.release.model_release import ModelReleaseSettings, make_model_release

    _quiet()
    settings = ModelReleaseSettings(checkpoint, out, dtype, results, data, questions, vllm, device)
    try:
        made = make_model_release(settings, Console())
    except ReleaseError as error:
        fail(str(error))
    proof = made["proof"]
    typer.echo(f"{out}: logits differ by at most {proof['logits']['max_abs_diff']:.2g}")
    typer.echo(f"served by vLLM: {'tested' if proof['vllm'] else 'not tested'}")


def _quiet() -> None:
    """Leaves the terminal to our own lines."""
    import logging

    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    # Shards are read outside of the training's process groups on purpose; torch warns of that for each.
    logging.getLogger("torch.distributed.device_mesh").setLevel(logging.ERROR)
