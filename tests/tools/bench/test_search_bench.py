"""`mempo bench search`: what clients see of a server, counted honestly."""

import asyncio
import json
import threading

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from typer.testing import CliRunner

from tools.bench.cli import app
from tools.bench.load import run_load
from tools.search.build import BuildSettings, build_index


@pytest.fixture
def server():
    """A server in a thread, made of a function (number of the request, its body) → (status, headers)."""
    running = []

    def start(answer):
        seen = []
        api = FastAPI()

        @api.post("/retrieve")
        async def retrieve(request: Request) -> Response:
            seen.append(json.loads(await request.body()))
            status, headers, *body = answer(len(seen))
            return Response(body[0] if body else "{}", status, headers)

        uv = uvicorn.Server(uvicorn.Config(api, port=0, log_level="error"))
        thread = threading.Thread(target=uv.run, daemon=True)
        thread.start()
        while not uv.started:
            pass
        running.append((uv, thread))
        return f"http://127.0.0.1:{uv.servers[0].sockets[0].getsockname()[1]}", seen

    yield start
    for uv, thread in running:
        uv.should_exit = True
        thread.join(5)


def load(url, **changes):
    settings = {"clients": 4, "batch": 1, "seconds": 0.0, "topk": 3} | changes
    return asyncio.run(run_load(url, ["a", "b", "c", "d"], **settings))


def test_every_client_gets_an_answer_and_a_busy_server_is_asked_again(server):
    url, seen = server(lambda n: (503, {"Retry-After": "0"}) if n <= 3 else (200, {}))
    result = load(url)
    assert (result.queries, result.busy, dict(result.errors)) == (4, 3, {})
    assert len(seen) == 7 and len(result.latencies) == 4


def test_other_failures_are_errors(server):
    url, _ = server(lambda n: (500, {}))
    assert dict(load(url).errors) == {"status_500": 4}
    assert load(url).queries == 0
    bare, _ = server(lambda n: (503, {}))
    assert dict(load(bare).errors) == {"status_503": 4}


def test_queries_that_failed_in_their_place_are_errors(server):
    url, _ = server(lambda n: (200, {}, '{"result": [[]], "errors": ["queries.0: blank"]}'))
    assert dict(load(url).errors) == {"query": 4}
    quoting, _ = server(
        lambda n: (200, {}, '{"result": [[{"contents": "\\"errors\\": [1]"}]], "x": "errors"}')
    )
    assert load(quoting).queries == 4


def test_the_report_holds_rates_ratios_and_settings(server, tmp_path):
    lines = [{"id": str(i), "title": f"Page {i}", "text": "a novel of sand and spice"} for i in range(20)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    build_index(tmp_path / "c.jsonl", tmp_path / "index", BuildSettings(), lambda *_: None)
    url, seen = server(lambda n: (200, {}))
    words = ["search", "--url", url, "--index", str(tmp_path / "index"), "--seconds", "0.2", "--clients", "2"]
    finished = CliRunner().invoke(app, [*words, "--batch", "5", "--json"])
    assert finished.exit_code == 0, finished.output
    result = json.loads(finished.stdout)
    assert result["errors"] == 0 and result["inprocess_qps"] > 0
    assert result["single_to_inprocess"] == pytest.approx(result["single_qps"] / result["inprocess_qps"])
    assert {len(body["queries"]) for body in seen} == {1, 5}
    assert result["settings"]["batch"] == 5
    assert CliRunner().invoke(app, ["search", "--url", url]).exit_code == 1
    wrong = CliRunner().invoke(app, ["search", "--url", url, "--index", str(tmp_path / "c.jsonl")])
    assert wrong.exit_code == 1 and "is a file; an index is the folder" in wrong.output


def test_a_server_that_answers_nothing_is_an_error_with_the_causes(server, tmp_path):
    url, _ = server(lambda n: (500, {}))
    (tmp_path / "queries").write_text("a\nb\n")
    words = [
        "search",
        "--url",
        url,
        "--queries",
        str(tmp_path / "queries"),
        "--seconds",
        "0.1",
        "--clients",
        "1",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert "every request failed: status_500" in result.output
