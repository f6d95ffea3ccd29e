"""`mempo search`: serve a corpus."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from tools.search.corpus import CorpusError, read_corpus
from tools.search.index import BM25Index
from tools.search.server import serve
from tools.search.settings import ServerError, ServerSettings

app = typer.Typer(no_args_is_help=True, help="Search over a corpus of passages.")


@app.callback()
def _group() -> None:
    """Search over a corpus of passages."""


@app.command("serve")
def serve_command(
    corpus: Annotated[
        Path, typer.Option(help="JSON lines, {id, contents} or {id, title, text} each; .gz is read as it is.")
    ],
    host: Annotated[
        str, typer.Option(help="Address to bind. Other than loopback needs --token-env.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    topk: Annotated[int, typer.Option(min=1, max=100, help="Results where a request names no topk.")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="Searches at the same time.")] = 2,
    token_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable that holds the bearer token.")
    ] = None,
    fd: Annotated[int | None, typer.Option(hidden=True, help="Inherited bound socket.")] = None,
    parent: Annotated[int | None, typer.Option(hidden=True, help="Stop when this process is gone.")] = None,
) -> None:
    """Serves BM25 search over a corpus in the Search-R1 format.

    Example: mempo search serve --corpus DIR/corpus.jsonl --port 8000

    Then: POST /retrieve {"queries": ["who wrote Dune"], "topk": 3, "return_scores": true}. GET /health answers as soon
    as the process listens, GET /ready once the index is loaded. Stop with Ctrl-C.
    """
    try:
        token = _token(token_env)
        settings = ServerSettings(host=host, port=port, token=token, default_topk=topk, threads=threads)
        listener = socket.socket(fileno=fd) if fd is not None else None
        if listener is None:
            typer.echo(f"loading {corpus}, listening on http://{host}:{port}")
        serve(lambda: BM25Index(read_corpus(corpus)), settings, listener, parent)
    except (CorpusError, ServerError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


def _token(variable: str | None) -> str | None:
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if not token:
        raise ServerError(f"--token-env {variable}: the environment variable {variable} is not set or empty")
    return token


if __name__ == "__main__":
    app()
