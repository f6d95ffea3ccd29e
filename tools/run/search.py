"""The search server of a run: the user's, or one of our own over the task's corpus."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from tools.run.errors import RunError
from tools.run.stages import Say

TOKEN_VARIABLE = "MEMPO_SEARCH_TOKEN"


@dataclass(frozen=True)
class SearchAccess:
    """Where agents search; no url where they do not.

    Attributes:
        token_env: names the environment variable that holds the token, if there is one.
    """

    url: str | None
    token_env: str | None = None

    @property
    def token(self) -> str | None:
        return os.environ.get(self.token_env) if self.token_env else None


def searches(config: DictConfig) -> bool:
    """Whether the run's agent searches at all."""
    return int(config.search.topk) > 0


def check_search(config: DictConfig) -> list[str]:
    """Problems of `search.*` with the agent."""
    from mempo.agents.factory import AGENTS

    entry = AGENTS.get(str(config.agent.name))
    if entry is not None and entry.searches and not searches(config):
        return [
            f"search.topk is 0, but the agent {config.agent.name} searches: write how many passages it is shown, e.g. 3"
        ]
    return []


@contextmanager
def search_access(config: DictConfig, corpus: Path, log: Path, say: Say) -> Iterator[SearchAccess]:
    """The server at `search.url`, checked, or one of our own that lives as long as the block; none with `search.topk` 0.

    On a cluster (RAY_ADDRESS is set) agents run on other machines: our own server then binds to this node's address and
    asks for a token made here, which agents receive through the environment of their processes.

    Raises:
        RunError: the given server does not answer, or our own cannot load the corpus or bind.
    """
    if not searches(config):
        yield SearchAccess(None)
        return
    if config.search.url:
        access = SearchAccess(str(config.search.url), config.search.token_env)
        check_server(access)
        say(f"search server at {access.url} answers")
        yield access
        return
    from tools.search.process import SearchProcess
    from tools.search.server import ServerError

    host, token_env = "127.0.0.1", None
    if os.environ.get("RAY_ADDRESS"):
        host, token_env = node_address(), TOKEN_VARIABLE
        os.environ.setdefault(TOKEN_VARIABLE, secrets.token_urlsafe(32))
    server = SearchProcess(
        corpus,
        host=host,
        port=int(config.search.port),
        token=os.environ[TOKEN_VARIABLE] if token_env else None,
        log=log,
        deadline_s=float(config.search.ready_deadline_s),
        progress=say,
    )
    try:
        server.start()
    except ServerError as error:
        raise RunError(f"search server: {error}") from error
    try:
        yield SearchAccess(server.url, token_env)
    finally:
        server.stop()


def check_server(access: SearchAccess) -> None:
    """One search, in the shape that agents use.

    Raises:
        RunError: with the failure's cause, if it did not work.
    """
    import asyncio

    from tools.search.client import SearchClient

    url = str(access.url)

    async def ask() -> tuple[str, dict[str, int]]:
        client = SearchClient(url, topk=1, deadline_s=20, retries=2, token=access.token)
        try:
            return (await client("test")).status, dict(client.counts)
        finally:
            await client.aclose()

    try:
        status, counts = asyncio.run(ask())
    except ValueError as error:
        raise RunError(str(error)) from error
    if status == "failed":
        causes = ", ".join(name for name in counts if name.startswith("failed/")) or "failed"
        raise RunError(
            f"the search server at {url} does not answer a search ({causes}): start it with "
            "`mempo search serve`, or leave search.url out to have one started"
        )


def node_address() -> str:
    """The address under which other machines of the cluster reach this one."""
    head = os.environ.get("RAY_ADDRESS", "").removeprefix("ray://").rpartition(":")[0] or "192.0.2.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((head.strip("[]"), 9))  # sends nothing; picks the interface that leads there
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostbyname(socket.gethostname())
