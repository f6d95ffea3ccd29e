"""`mempo search`: build an index, and serve it."""

from __future__ import annotations

import os
import socket
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tools.search.build import KINDS, BuildSettings, build_index
from tools.search.layouts import EXPECTED
from tools.search.listening import http_url
from tools.search.manifest import IndexFolderError, Manifest
from tools.search.memory import check_free, serving_bytes
from tools.search.progress import steps
from tools.search.records import CorpusError
from tools.search.server import MakeSource, serve
from tools.search.settings import LIMITS, ServerError, ServerSettings
from tools.search.sources import corpus_source, index_source, web_source

app = typer.Typer(no_args_is_help=True, help="Search over a corpus of passages: build an index, serve it.")

Encoder = Annotated[
    Path | None,
    typer.Option(help="Folder of the encoder, for dense and hybrid: sentence-transformers or Hugging Face."),
]

Host = Annotated[
    str,
    typer.Option(
        help="Address to bind. Other than loopback needs --token-env.",
        callback=lambda host: host.removeprefix("[").removesuffix("]"),  # IPv6 as it stands in addresses
    ),
]


@app.callback()
def _group() -> None:
    """Search over a corpus of passages: build an index, serve it."""


@app.command("build")
def build_command(
    corpus: Annotated[Path, typer.Option(help=f"One file: {EXPECTED}; each may have a url.")],
    out: Annotated[Path, typer.Option(help="Folder of the new index.")],
    kind: Annotated[str, typer.Option(help=f"{', '.join(KINDS)}; hybrid fuses the other two.")] = "bm25",
    encoder: Encoder = None,
    vectors: Annotated[
        str, typer.Option(help="How vectors are searched: flat (exact), hnsw or ivf (approximate, faster).")
    ] = "flat",
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on malformed records instead of leaving them out.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace the index in --out; running servers take the new one over."),
    ] = False,
) -> None:
    """Builds an index. The same command goes on after an interruption.

    Example: mempo search build --corpus wiki-18.jsonl.gz --out wiki-18.index

    Malformed records are reported by number and counted in manifest.json; a repeated id is an error. Where no record
    has an id, their numbers are the ids.
    """
    try:
        dense = None
        if kind != "bm25":
            from tools.search.dense import DenseSettings

            dense = DenseSettings(kind=vectors)  # type: ignore[arg-type]
        settings = BuildSettings(kind, encoder, dense, strict, replace)
        with steps() as progress:
            manifest = build_index(corpus, out, settings, progress)
    except (ValueError, RuntimeError, OSError) as error:  # all of the parts' errors are of these kinds
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    left_out = f"; {manifest.malformed} malformed record(s) left out" if manifest.malformed else ""
    typer.echo(f"{out}: {manifest.kind} index of {manifest.documents:,} passages{left_out}")
    for problem in manifest.problems:
        typer.echo(f"  {problem}", err=True)


@app.command("serve", epilog=LIMITS)
def serve_command(
    index: Annotated[Path | None, typer.Option(help="Folder that `mempo search build` wrote.")] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Or a corpus file, indexed with BM25 at every start (small corpora).")
    ] = None,
    encoder: Encoder = None,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    topk: Annotated[int, typer.Option(min=1, max=100, help="Results where a request names no topk.")] = 3,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes; they share the index in memory. Needs --index.")
    ] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Searches of one worker at the same time.")] = 1,
    token_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable that holds the bearer token.")
    ] = None,
    fd: Annotated[int | None, typer.Option(hidden=True, help="Inherited bound socket.")] = None,
    parent: Annotated[int | None, typer.Option(hidden=True, help="Stop when this process is gone.")] = None,
) -> None:
    """Serves search over an index in the Search-R1 format, and in those of other clients.

    Example: mempo search serve --index wiki-18.index --workers 4

    Then: POST /retrieve {"queries": ["who wrote Dune"], "topk": 3, "return_scores": true}; POST /access {"urls": ["Dune"]}
    for whole pages. GET /health answers as soon as the process listens, GET /ready once the index is loaded; GET /metrics
    counts; GET /docs describes. Stop with Ctrl-C.
    """
    try:
        token = _token(token_env)
        settings = ServerSettings(
            host=host, port=port, token=token, default_topk=topk, threads=threads, workers=workers
        )
        source = _source(index, corpus, encoder, workers)
        listener = socket.socket(fileno=fd) if fd is not None else None
        if listener is None:
            typer.echo(f"loading {index or corpus}, listening on {http_url(host, port)}")
        serve(source, settings, listener, parent)
    except (CorpusError, IndexFolderError, ServerError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


@app.command("web", epilog=LIMITS)
def web_command(
    cache: Annotated[Path, typer.Option(help="Folder that keeps every answer, so that evaluations replay.")],
    mode: Annotated[
        str,
        typer.Option(help="use: read the cache, else ask; replay: only read it; refresh: ask, and renew it."),
    ] = "use",
    base_url: Annotated[
        str, typer.Option(help="A Serper-style API: POST /search with X-API-KEY.")
    ] = "https://google.serper.dev",
    key_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable that holds the API key.")
    ] = "SERPER_API_KEY",
    requests_per_s: Annotated[float, typer.Option(help="Requests to the API per second.")] = 5.0,
    deadline_s: Annotated[float, typer.Option(help="Seconds for one search, retries included.")] = 30.0,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    topk: Annotated[int, typer.Option(min=1, max=100, help="Results where a request names no topk.")] = 3,
    token_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable that holds the bearer token.")
    ] = None,
) -> None:
    """Serves the web behind the same requests: /retrieve searches, /access reads pages.

    Example: SERPER_API_KEY=... mempo search web --cache web-cache

    Pages of this machine and of private networks are never read.
    """
    from tools.search.web.provider import ProviderSettings

    try:
        settings = ServerSettings(host=host, port=port, token=_token(token_env), default_topk=topk)
        provider = ProviderSettings(base_url, key_env, deadline_s, requests_per_s)
        typer.echo(f"searching {base_url}, listening on {http_url(host, port)}")
        serve(partial(web_source, cache, mode, provider), settings)
    except ServerError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


def _source(index: Path | None, corpus: Path | None, encoder: Path | None, workers: int) -> MakeSource:
    if (index is None) == (corpus is None):
        raise ServerError("give either --index or --corpus")
    if index is not None:
        Manifest.read(index)
        check_free(serving_bytes(index, workers), f"serving {index} with {workers} worker(s)")
        return partial(index_source, index, encoder)
    assert corpus is not None
    if encoder is not None:
        raise ServerError("--encoder belongs to --index; a corpus file is served with BM25")
    if workers > 1:
        raise ServerError(
            f"several workers share an index on disk: `mempo search build --corpus {corpus} --out INDEX`, then --index INDEX"
        )
    return partial(corpus_source, corpus)


def _token(variable: str | None) -> str | None:
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if not token:
        raise ServerError(f"--token-env {variable}: the environment variable {variable} is not set or empty")
    return token


if __name__ == "__main__":
    app()
