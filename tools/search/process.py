"""A search server of one's own: started as a child process, waited for, stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import httpx

from tools.search.listening import bind, http_url
from tools.search.settings import ServerError, is_loopback

TOKEN_VARIABLE = "MEMPO_SEARCH_TOKEN"
STOP_S = 10.0  # a server that has not ended by then after SIGTERM is killed


class SearchProcess:
    """A `mempo search serve` child that lives as long as the `with` block.

    Args:
        corpus: JSON lines file.
        host, port: address to bind; port 0 takes a free one. A host that other machines reach needs `token`.
        token: bearer token; handed over in the child's environment, never on its command line.
        log: file for the child's output; a temporary one by default.
        deadline_s: seconds until the index must be loaded.
        progress: called about once a second with a line for the user while the index loads.
    """

    def __init__(
        self,
        corpus: str | Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        log: str | Path | None = None,
        deadline_s: float = 600.0,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        if not token and not is_loopback(host):
            raise ServerError(f"host {host} can be reached from other machines: give the server a token")
        self.corpus, self.host, self.port, self.token = Path(corpus), host, port, token
        self.deadline_s, self._progress = deadline_s, progress or (lambda line: None)
        self._log_path = Path(log) if log is not None else None
        self._log: IO[bytes] | None = None
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address for clients, once started."""
        return http_url(self.host, self.port)

    @property
    def pid(self) -> int | None:
        """Process id of the server while it runs."""
        return self._child.pid if self._child is not None else None

    def start(self) -> Self:
        """Starts the server and returns once it answers searches.

        Raises:
            ServerError: the port is in use, the corpus cannot be loaded (its message is repeated), or the deadline
                passed. Nothing is left running.
        """
        if self._child is not None:
            raise ServerError("this search server runs already")
        listener = self._bind()
        try:
            self._spawn(listener)
        finally:
            listener.close()  # the child has its own copy
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends the server; does nothing if it does not run."""
        child, self._child = self._child, None
        if child is not None and child.poll() is None:
            child.terminate()
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _bind(self) -> socket.socket:
        """Binds here and hands the socket down, so that no other process can take the port in between."""
        listener = bind(self.host, self.port)
        self.port = listener.getsockname()[1]
        return listener

    def _spawn(self, listener: socket.socket) -> None:
        # -P: a file in the current folder must not be taken for a package.
        command = [sys.executable, "-P", "-m", "tools.search.cli", "serve"]
        command += ["--corpus", str(self.corpus.absolute())]
        command += ["--host", self.host, "--fd", str(listener.fileno()), "--parent", str(os.getpid())]
        root = Path(__file__).parents[2]
        path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path}
        if self.token:
            command += ["--token-env", TOKEN_VARIABLE]
            environment[TOKEN_VARIABLE] = self.token
        if self._log_path is not None:
            self._log_path.parent.mkdir(parents=True, exist_ok=True)
            self._log = self._log_path.open("w+b")
        else:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed in stop)
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=[listener.fileno()],
            start_new_session=True,  # Ctrl-C reaches the trainer first, which stops the server after its last search
        )

    def _wait_until_ready(self) -> None:
        assert self._child is not None
        begin = told = time.monotonic()
        with httpx.Client(timeout=2.0, trust_env=False) as http:
            while True:
                if self._child.poll() is not None:
                    raise ServerError(
                        f"the search server ended while loading {self.corpus}:\n{self._last_words()}"
                    )
                now = time.monotonic()
                if now - begin > self.deadline_s:
                    raise ServerError(
                        f"the search server was not ready within {self.deadline_s:g} s; raise the deadline for a large "
                        f"corpus:\n{self._last_words()}"
                    )
                try:
                    response = http.get(f"{self.url}/ready")
                    if response.status_code == 200:
                        self._progress(f"search server ready: {response.json()['documents']:,} passages")
                        return
                except httpx.TransportError:
                    pass  # not listening yet
                if now - told >= 1:
                    told = now
                    self._progress(f"search server loads {self.corpus.name}: {now - begin:.0f} s")
                time.sleep(0.1)

    def _last_words(self) -> str:
        assert self._log is not None
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")[-2000:].strip()
