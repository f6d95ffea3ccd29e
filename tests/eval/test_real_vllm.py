"""What this project asks of vLLM, asked of a real one: token ids, chat, a message that goes on, log-probs of prompts."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rich.console import Console
from transformers import Qwen2Config, Qwen2ForCausalLM

from eval.api import TOKEN_IDS, Api, check_continuation, choose_api
from eval.endpoint import Endpoint, EndpointSettings
from eval.probe_command import probe_with_endpoint, probe_with_folder
from eval.probe_log import read_probes
from eval.run import data_settings, evaluate, run_settings
from eval.sample_log import SampleLog, read_folder
from eval.tasks import read_questions
from eval.vllm_server import CPU_BATCHED_TOKENS, VllmServer, VllmSettings
from tests.eval.support import AGENT, MODEL, FakeEndpoint, serving, write_questions
from tests.mempo.support import small_tokens
from tools.search.client import SearchSettings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
QUIET = Console(file=io.StringIO())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
        initializer_range=0.1,
        eos_token_id=tokenizer.eos_token_id,
    )
    folder = tmp_path_factory.mktemp("models") / "tiny"
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def served(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndpointSettings]:
    pytest.importorskip("vllm", reason="vLLM is not installed")
    settings = VllmSettings(model, max_model_len=2000, max_num_seqs=16, device="cpu")
    with VllmServer(settings, log=tmp_path_factory.mktemp("log") / "vllm.log", console=QUIET) as server:
        server.wait()
        yield EndpointSettings(server.url, server.model, connections=16)


def run(
    folder: Path, fake: FakeEndpoint, endpoint: EndpointSettings, api: Api = TOKEN_IDS, **agent: object
) -> Path:
    questions = read_questions(write_questions(folder / "v.parquet", 3))
    settings = {**AGENT, "max_response_tokens": 40, **agent}
    search = SearchSettings(fake.url)
    log = SampleLog(
        folder / "run",
        run_settings(
            model={"name": MODEL},
            data=data_settings(folder / "v.parquet", questions),
            agent=settings,
            endpoint=endpoint,
            search=search,
            api=api,
        ),
    )
    evaluate(
        questions,
        tokenizer=small_tokens().tokenizer,
        agent=settings,
        endpoint=endpoint,
        search=search,
        log=log,
        console=QUIET,
        api=api.ran,
    )
    return log.folder


def test_it_takes_token_ids_and_goes_on_with_a_message(served: EndpointSettings) -> None:
    async def ask() -> tuple[Api, int | None]:
        async with Endpoint(served) as endpoint:
            await check_continuation(endpoint, small_tokens())
            return await choose_api(endpoint, "auto", small_tokens()), await endpoint.window()

    assert asyncio.run(ask()) == (TOKEN_IDS, 2000)


def test_on_a_cpu_it_survives_seeded_prompts_beyond_what_one_step_takes(served: EndpointSettings) -> None:
    prompts = [[7 + number] * 1500 for number in range(16)]  # 24,000 tokens at once, all new

    async def ask() -> list[bytes]:
        fields = {"model": served.model, "temperature": 1.0, "max_tokens": 4, "ignore_eos": True}
        async with Endpoint(served) as endpoint:
            requests = [
                endpoint.ask("completions", {**fields, "prompt": prompt, "seed": prompt[0]}, bytes)
                for prompt in prompts
            ]
            return await asyncio.gather(*requests)

    assert sum(map(len, prompts)) > CPU_BATCHED_TOKENS
    assert len(asyncio.run(ask())) == 16


@pytest.mark.parametrize("forced", [False, True], ids=["free", "forced"])
def test_over_chat_it_sees_the_very_prompt_that_the_agent_made(
    served: EndpointSettings, tmp_path: Path, forced: bool
) -> None:
    with serving(FakeEndpoint()) as fake:
        folder = run(tmp_path, fake, served, Api("chat", "asked for"), force_memory_prefix=forced)
    for sample in read_folder(folder)[1].values():
        assert sample["failure"] is None
        assert sample["turns"] == 1  # a random model: its turn is cut, and its one prompt was counted by vLLM
        assert sample["usage"]["prompt"] == sample["estimated_tokens"]["prompt"]


def test_its_log_probs_of_prompts_are_those_of_the_model(
    served: EndpointSettings, model: Path, tmp_path: Path
) -> None:
    rules = {"likelihood": "all", "aliases": "first"}
    with serving(FakeEndpoint()) as fake:
        asked = EndpointSettings(fake.url, MODEL)  # the scripted turns, whose memories the real one scores
        folder = run(tmp_path, fake, asked, max_response_tokens=400)
    there = probe_with_endpoint(folder, served, rules, tokenizer=str(model), console=QUIET)
    told = read_probes(folder)
    for name in ("probe.jsonl", "probe_settings.json"):
        (folder / name).unlink()
    here = probe_with_folder(folder, model, rules, "cpu", tokenizer=None, console=QUIET)
    assert here["n"] == there["n"] == 3
    for name, line in read_probes(folder).items():
        for ours, theirs in zip(line["probe"], told[name]["probe"], strict=True):
            for side in ("p_memory", "p_history"):
                assert ours[side] == (theirs[side] and pytest.approx(theirs[side], rel=1e-3))
