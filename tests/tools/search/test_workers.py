"""A server of several processes over one index: shared socket, shared numbers, a worker that dies is replaced."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tools.bench.load import run_load
from tools.search.build import BuildSettings, build_index

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    lines = [{"id": str(i), "title": f"Page {i}", "text": "a novel of sand"} for i in range(50)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    build_index(folder / "corpus.jsonl", folder / "index", BuildSettings(), lambda *_: None)
    return folder / "index"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serving(index, *words, program=(sys.executable, "-m", "tools.search.cli"), folder=ROOT):
    """A running `mempo search serve`; nothing of it is left afterwards."""
    port = free_port()
    command = [*program, "serve", "--index", str(index), "--port", str(port)]
    process = subprocess.Popen(
        [*command, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10, trust_env=False) as http:
            wait_until(lambda: answers(http, "/ready"))
            yield process, http
    finally:
        process.terminate()
        process.wait(20)


def answers(http, path):
    try:
        return http.get(path).status_code == 200
    except httpx.TransportError:
        return False


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def workers_of(process):
    # multiprocessing also starts a process that tracks resources.
    children = psutil.Process(process.pid).children()
    return [child for child in children if "spawn_main" in " ".join(command_of(child))]


def command_of(child):
    try:
        return child.cmdline()
    except psutil.NoSuchProcess:  # also one that has died and is not yet waited for
        return []


def searches(http):
    answer = http.post("/retrieve", json={"queries": ["page 7"], "topk": 1})
    return answer.json()["result"][0][0]["id"]


def test_workers_take_no_module_from_the_current_folder(index, tmp_path):
    for name in ("signal.py", "httpx.py"):
        (tmp_path / name).write_text("raise SystemExit('taken from the current folder')\n")
    console_script = (Path(sys.executable).with_name("mempo"), "search")
    with serving(index, "--workers", "2", program=console_script, folder=tmp_path) as (_, http):
        assert searches(http) == "7"


def test_workers_share_their_numbers_and_one_that_dies_is_replaced(index):
    with serving(index, "--workers", "2") as (process, http):
        wait_until(lambda: len(workers_of(process)) == 2)
        assert [searches(http) for _ in range(8)] == ["7"] * 8
        assert "mempo_search_queries_total 8.0" in http.get("/metrics").text
        victim = workers_of(process)[0].pid
        os.kill(victim, signal.SIGKILL)
        wait_until(
            lambda: len(workers_of(process)) == 2 and victim not in [w.pid for w in workers_of(process)]
        )
        wait_until(lambda: answers(http, "/ready"))
        assert searches(http) == "7"
        workers = workers_of(process)
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive, "the workers end with the server"


def test_an_index_that_cannot_be_served_ends_the_server_with_the_reason(tmp_path):
    command = [sys.executable, "-m", "tools.search.cli", "serve", "--index", str(tmp_path), "--workers", "2"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 1
    assert "holds no index" in finished.stderr


SLOW = """
import time
from tools.search.app import Source
from tools.search.backend import IndexBackend
from tools.search.server import serve
from tools.search.settings import ServerSettings

class Slow:
    def __len__(self):
        return 1
    def search_all(self, queries, topk):
        time.sleep(1.5)
        return [[] for _ in queries]

def source(settings):
    return Source(lambda: IndexBackend(Slow(), settings))

serve(source, ServerSettings(port={port}))
"""


def test_a_server_that_is_told_to_stop_finishes_what_it_has_begun():
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", SLOW.format(port=port)], cwd=ROOT)
    answers_seen = []
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10, trust_env=False) as http:
            wait_until(lambda: answers(http, "/ready"))
            asking = threading.Thread(
                target=lambda: answers_seen.append(
                    http.post("/retrieve", json={"queries": ["a"]}).status_code
                )
            )
            asking.start()
            time.sleep(0.4)
            process.terminate()
            asking.join(10)
        assert process.wait(10) in (0, -signal.SIGTERM)  # uvicorn ends by the signal once it has cleaned up
    finally:
        process.kill()
    assert answers_seen == [200]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_thousand_clients_are_all_served_and_memory_stays_flat(index):
    with serving(index, "--workers", "2") as (process, http):
        server = psutil.Process(process.pid)
        resident = []
        ending = threading.Event()

        def sample():
            while not ending.wait(1):
                family = [server, *server.children(recursive=True)]
                resident.append(sum(member.memory_info().rss for member in family))

        sampling = threading.Thread(target=sample)
        sampling.start()
        queries = [f"page {number} of sand" for number in range(50)]
        load = asyncio.run(
            run_load(str(http.base_url).rstrip("/"), queries, clients=2048, batch=1, seconds=60, topk=3)
        )
        ending.set()
        sampling.join()
    assert dict(load.errors) == {}, "nothing but 503 with Retry-After, and those are asked again"
    assert len(load.latencies) >= 2048
    early, late = sum(resident[10:20]) / 10, sum(resident[-10:]) / 10
    assert late < 1.05 * early
