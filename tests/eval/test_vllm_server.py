from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from rich.console import Console

from eval.before_after import evaluate_model
from eval.errors import EvalError
from eval.vllm_server import VllmServer, VllmSettings, command, environment
from tests.eval.support import AGENT, FakeEndpoint, serving, write_questions
from tests.mempo.support import small_tokens
from tools.search.client import SearchSettings


def model_folder(folder: Path, **config: object) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 2, **config}))
    return folder


def group_members(group: int) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    return [row[-1] for row in rows if row[0] == str(group) and not row[1].startswith("Z")]


def stand_in(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Starts `program` in the place of vLLM; it finds the port in sys.argv[1]."""

    def words(settings: VllmSettings, device: str, model: str, port: int) -> list[str]:
        return [sys.executable, "-c", textwrap.dedent(program), str(port)]

    monkeypatch.setattr("eval.vllm_server.command", words)


SERVING_WITH_A_CHILD = """
    import http.server, subprocess, sys
    subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"])
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def server(folder: Path, **settings: float) -> VllmServer:
    model = model_folder(folder / "model")
    values = VllmSettings(model, 256, device="cpu", **settings)  # type: ignore[arg-type]
    return VllmServer(values, log=folder / "vllm.log", console=Console(file=io.StringIO()))


def wait(starting: VllmServer) -> None:
    with starting:
        starting.wait()


def test_the_end_of_the_log_is_in_the_error_when_the_server_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "raise SystemExit('head_dim=16 is not supported')")
    with pytest.raises(EvalError, match=r"(?s)exit code 1.*head_dim=16 is not supported"):
        wait(server(tmp_path))


def test_a_silent_server_ends_at_the_deadline_and_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "import time; print('loading', flush=True); time.sleep(60)")
    started = time.monotonic()
    with pytest.raises(EvalError, match=r"(?s)not ready after 1 s.*loading"):
        wait(server(tmp_path, ready_deadline_s=1))
    assert time.monotonic() - started < 10


def test_stopping_ends_the_children_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, SERVING_WITH_A_CHILD)
    monkeypatch.setattr("eval.vllm_server.GROUP_PATIENCE_S", 0.2)
    with server(tmp_path) as running:
        running.wait()
        assert running._process is not None
        group = running._process.pid
        assert len(group_members(group)) == 2
        running.check()
    assert group_members(group) == []


def test_the_server_goes_when_its_owner_is_killed(tmp_path: Path) -> None:
    model_folder(tmp_path / "model")
    program = f"""
        import io, os, signal, sys, time
        from pathlib import Path
        from rich.console import Console
        import eval.vllm_server as module
        module.command = lambda *_: [sys.executable, "-c", "import time; time.sleep(60)"]
        server = module.VllmServer(module.VllmSettings(Path({str(tmp_path / "model")!r}), 256, device="cpu"),
            log=Path({str(tmp_path / "log")!r}), console=Console(file=io.StringIO()))
        server.start()
        print(server._process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    owner = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert owner.returncode == -signal.SIGKILL, owner.stderr
    group = int(owner.stdout)
    deadline = time.monotonic() + 5
    while group_members(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert group_members(group) == []


def test_the_cpu_environment_fits_the_model(tmp_path: Path) -> None:
    large = model_folder(tmp_path / "a", num_attention_heads=8, hidden_size=1024, num_key_value_heads=8)
    settings = VllmSettings(large, max_model_len=8192, max_num_seqs=24, device="cpu")
    # 8192 * 24 tokens, 2 layers, 8 heads of 128, keys and values of 4 bytes: 3 GiB.
    assert environment(settings, "cpu")["VLLM_CPU_KVCACHE_SPACE"] == "3"
    assert "VLLM_TARGET_DEVICE" not in environment(settings, "cuda")
    assert {"--enforce-eager", "--no-enable-chunked-prefill"} < set(command(settings, "cpu", "a", 1))
    assert "--enforce-eager" not in command(settings, "cuda", "a", 1)


class Served:
    """In the place of VllmServer: a fake endpoint, and a count of starts."""

    starts = 0
    fake: FakeEndpoint

    def __init__(self, settings: VllmSettings, **_: object) -> None:
        self.model, self.url = "fake", Served.fake.url

    def __enter__(self) -> Served:
        Served.starts += 1
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def check(self) -> None:
        pass

    def wait(self) -> None:
        pass


def test_a_model_is_evaluated_once_in_every_mode_with_one_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.before_after.VllmServer", Served)
    monkeypatch.setattr(Served, "starts", 0)
    model = model_folder(tmp_path / "fake")
    small_tokens().tokenizer.save_pretrained(model)
    (model / "model.safetensors").write_bytes(b"weights")
    data = write_questions(tmp_path / "validation.parquet", 10)

    def run() -> dict[str, dict[str, float]]:
        search = SearchSettings(Served.fake.url)
        console = Console(file=io.StringIO())
        return evaluate_model(
            model,
            data,
            ["history", "window:1"],
            search,
            AGENT,
            tmp_path / "out",
            questions=6,
            seed=1,
            console=console,
        )

    with serving(FakeEndpoint()) as Served.fake:
        first = run()
        assert set(first) == {"history", "window1"}
        assert {summary["n"] for summary in first.values()} == {6}
        assert Served.starts == 1
        asked = len(Served.fake.requests)
        assert run() == first
        assert (Served.starts, len(Served.fake.requests)) == (1, asked)
        (model / "model.safetensors").write_bytes(b"trained")
        with pytest.raises(EvalError, match=r"model\.sha256"):
            run()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_real_vllm_answers_on_cpu_and_a_rerun_is_the_same(tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="vLLM is not installed")
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    tokenizer = small_tokens().tokenizer
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,  # heads of 32: vLLM's CPU attention takes none smaller
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = tmp_path / "tiny"
    Qwen2ForCausalLM(config).save_pretrained(model)
    tokenizer.save_pretrained(model)
    data = write_questions(tmp_path / "validation.parquet", 12)
    agent = {**AGENT, "max_response_tokens": 60, "max_context_tokens": 1024, "force_memory_prefix": True}
    with serving(FakeEndpoint()) as fake:
        runs = []
        for out in ("a", "b"):
            summary = evaluate_model(
                model, data, ["window:1"], SearchSettings(fake.url), agent, tmp_path / out, device="cpu"
            )
            assert summary["window1"]["n"] == 12
            assert summary["window1"]["failures"] == {}
            lines = (tmp_path / out / "window1" / "samples.jsonl").read_text().splitlines()
            runs.append(sorted((json.loads(line) for line in lines), key=lambda sample: sample["id"]))
    for first, second in zip(*runs, strict=True):
        for sample in (first, second):
            del sample["seconds"]
            for turn in sample["trajectory"]["turns"]:
                del turn["logprobs"]  # the last digits depend on which requests were computed together
        assert first == second
    assert os.path.exists(tmp_path / "a" / "vllm.log")
