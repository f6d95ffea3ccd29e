"""A real server as a child process: ready, searched, stopped, and what happens when it cannot start."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tools.search.client import SearchClient
from tools.search.process import SearchProcess
from tools.search.settings import ServerError


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "0", "title": "Dune", "text": "A novel."}\n', encoding="utf-8")
    return path


async def ask(server, token=None, times=1):
    client = SearchClient(server.url, token=token, retries=0)
    replies = await asyncio.gather(*[client("dune") for _ in range(times)])
    await client.aclose()
    return [reply.status for reply in replies]


def test_a_server_with_a_token_is_ready_then_searched_by_many_then_gone(corpus):
    lines = []
    with SearchProcess(corpus, token="s3cret", progress=lines.append, deadline_s=60) as server:
        assert asyncio.run(ask(server, "s3cret", 100)) == ["ok"] * 100
        assert asyncio.run(ask(server)) == ["failed"]
        pid = server.pid
    assert lines[-1] == "search server ready: 1 passages"
    assert server.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/health", trust_env=False)


def test_files_of_the_current_folder_are_not_taken_for_packages(corpus, monkeypatch):
    for name in ("httpx.py", "uvicorn.py", "queue.py"):
        (corpus.parent / name).write_text("raise SystemExit('taken from the current folder')\n")
    monkeypatch.chdir(corpus.parent)
    with SearchProcess(corpus, deadline_s=60) as server:
        assert asyncio.run(ask(server)) == ["ok"]


def test_a_bad_corpus_ends_the_start_with_its_line(tmp_path):
    (tmp_path / "bad.jsonl").write_text("{}\n")
    with pytest.raises(ServerError, match="line 1: field text"):
        SearchProcess(tmp_path / "bad.jsonl", deadline_s=60).start()


def test_a_port_in_use_and_an_open_host_are_refused_before_anything_starts(corpus):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(
            ServerError, match=r"cannot listen on http://127\.0\.0\.1:\d+: Address already in use"
        ):
            SearchProcess(corpus, port=other.getsockname()[1]).start()
    assert SearchProcess(corpus, host="::1", port=8000).url == "http://[::1]:8000"
    with pytest.raises(ServerError, match="give the server a token"):
        SearchProcess(corpus, host="0.0.0.0")


def test_the_server_ends_when_its_starter_is_killed(corpus):
    code = (
        "import sys, time\nfrom tools.search.process import SearchProcess\n"
        f"server = SearchProcess({str(corpus)!r}).start()\nprint(server.pid, flush=True)\ntime.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(starter.stdout.readline())
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not os.path.exists(f"/proc/{pid}") or "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the search server outlived its starter")
