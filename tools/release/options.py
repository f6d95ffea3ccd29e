"""Options of the commands that publish a release, written once."""

from __future__ import annotations

from typing import Annotated

import typer

Push = Annotated[
    str | None,
    typer.Option(metavar="ORG/NAME", help="Say what would be uploaded there; with --yes, upload it."),
]
Yes = Annotated[bool, typer.Option("--yes", help="With --push: upload; the token is $HF_TOKEN.")]
Public = Annotated[bool, typer.Option("--public", help="With --push: a repository that everybody sees.")]
