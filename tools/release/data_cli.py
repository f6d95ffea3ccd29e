"""`mempo release-data`: make, check and publish releases of data folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tools.release.cli import fail, publish, verify
from tools.release.options import Public, Push, Yes

app = typer.Typer(add_completion=False)


@app.command()
def release_data(
    data: Annotated[
        Path | None, typer.Option(help="Data folder, as `mempo data` and `mempo world` write it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The release's folder; its name is the data set's.")
    ] = None,
    check: Annotated[Path | None, typer.Option(help="A release to verify, offline.")] = None,
    push: Push = None,
    yes: Yes = False,
    public: Public = False,
) -> None:
    """Turn a data folder into a Hugging Face data set: splits, features, card with counts, licences and hashes.

    Example: mempo release-data --data data/hotpotqa --out releases/hotpotqa-agent
    """
    if check is not None:
        verify(check)
        return
    if out is None or (data is None and push is None):
        raise typer.BadParameter("give --data and --out, or --check, or --out and --push")
    if data is not None:
        _make(data, out)
    if push is not None:
        publish(out, push, yes=yes, public=public)


def _make(data: Path, out: Path) -> None:
    from datasets.utils.logging import disable_progress_bar

    from tools.release.data_release import make_data_release
    from tools.release.errors import ReleaseError

    disable_progress_bar()
    try:
        made = make_data_release(data, out)
    except ReleaseError as error:
        fail(str(error))
    rows = " and ".join(f"{count:,} {split}" for split, count in made["rows"].items())
    typer.echo(f"{out}: {rows} questions, {made['passages']:,} passages, loaded again with `datasets`")
