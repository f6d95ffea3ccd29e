"""One `mempo eval run`, from its options to its summary."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.api import TOKEN_IDS, Api, choose_api, recorded_api
from eval.endpoint import Endpoint, EndpointSettings
from eval.errors import EvalError
from eval.model_files import load_tokenizer, model_settings, read_config
from eval.probe_command import RULES, probe_table, probe_with_endpoint, probe_with_folder
from eval.run import data_settings, evaluate, run_settings
from eval.sample_log import SampleLog
from eval.tasks import Question, choose, read_questions
from eval.vllm_server import VllmServer, VllmSettings
from mempo.tokens import ChatTokens
from tools.search.client import SearchSettings

LOCAL = "local"
# What a turn sees where --context says nothing: without a memory, only the history carries anything over, and a reader
# writes its prompts anew.
CONTEXTS = {"react": "history", "rag": "history", "chunk_memory": "rewritten"}
LARGEST_WINDOW = 32768


@dataclass(frozen=True)
class RunPlan:
    """What to evaluate, and how.

    Attributes:
        model: a folder (with `endpoint` local), or the name under which the endpoint serves it.
        endpoint: `local`, or a URL.
        api: `auto`, `completions` or `chat`.
        agent: the `agent.*` settings; `context` and `max_context_tokens` may be None.
        questions: how many, drawn by `seed`; None for all.
        search: None for an agent that does not search.
        probe_memory: score the memories at the end.
    """

    model: str
    data: Path
    out: Path
    endpoint: str
    api: str
    agent: dict[str, Any]
    search: SearchSettings | None
    questions: int | None
    seed: int
    temperature: float
    tokenizer: str | None
    concurrency: int
    deadline: float
    retries: int
    api_key_env: str
    device: str
    tensor_parallel: int
    retry_failed: bool
    probe_memory: bool

    @property
    def local(self) -> bool:
        return self.endpoint == LOCAL

    def at(self, url: str) -> EndpointSettings:
        """The endpoint's settings at an address."""
        return EndpointSettings(
            url=url,
            model=Path(self.model).resolve().name if self.local else self.model,
            temperature=self.temperature,
            seed=self.seed,
            deadline_s=self.deadline,
            retries=self.retries,
            api_key_env=self.api_key_env,
            connections=self.concurrency,
        )

    def agent_settings(self) -> dict[str, Any]:
        """The `agent.*` settings with nothing left open."""
        window = self.agent["max_context_tokens"]
        if window is None and not self.local:
            raise EvalError(
                "with an endpoint of your own, give --max-context-tokens: the model's window there"
            )
        if window is None:
            positions = read_config(Path(self.model)).get("max_position_embeddings", LARGEST_WINDOW)
            window = min(LARGEST_WINDOW, int(positions))
        context = self.agent["context"] or CONTEXTS.get(str(self.agent["name"]), "window:1")
        return {**self.agent, "context": context, "max_context_tokens": window}


def carry_out(plan: RunPlan, console: Console) -> dict[str, Any]:
    """Evaluates, or goes on with it, and returns the summary.

    Raises:
        EvalError, ValueError: for an option that cannot be, or if anything but a single question fails.
    """
    agent = plan.agent_settings()
    chosen = choose(read_questions(plan.data), plan.questions, plan.seed)
    api = _api(plan)
    if plan.probe_memory and api.ran == "chat" and not plan.local:
        raise EvalError(
            "--probe-memory needs log-probs of prompts, which the chat API does not have: leave it out, and run "
            "`mempo eval probe` with a model folder"
        )
    settings = run_settings(
        model=model_settings(Path(plan.model)) if plan.local else {"name": plan.model},
        data=data_settings(plan.data, chosen),
        agent=agent,
        endpoint=plan.at("http://127.0.0.1" if plan.local else plan.endpoint),
        search=plan.search,
        api=api,
    )
    log = SampleLog(plan.out, settings)
    summary = log.finished()
    if summary is not None and not (plan.retry_failed and summary["failed"]):
        console.print(f"{plan.out} is finished; nothing to do")
    else:
        if api.ran == "chat":
            console.print(f"over chat messages: {api.why}", highlight=False)
        common: dict[str, Any] = {
            "agent": agent,
            "api": api.ran,
            "search": plan.search,
            "log": log,
            "console": console,
            "retry_failed": plan.retry_failed,
        }
        summary = _evaluate_local(plan, chosen, common) if plan.local else _evaluate(plan, chosen, common)
    if plan.probe_memory:
        _probe(plan, console)
    return summary


def _api(plan: RunPlan) -> Api:
    recorded = recorded_api(plan.out)
    if recorded is not None and plan.api in ("auto", recorded.ran):
        return recorded
    if plan.local and plan.api == "auto":
        return TOKEN_IDS  # as vLLM has it

    async def ask() -> Api:
        async with Endpoint(plan.at("http://127.0.0.1" if plan.local else plan.endpoint)) as endpoint:
            if plan.api == "auto":
                await endpoint.check()
            return await choose_api(endpoint, plan.api, tokens)

    tokens = ChatTokens(load_tokenizer(plan.tokenizer or plan.model))
    return asyncio.run(ask())


def _evaluate(plan: RunPlan, chosen: list[Question], common: dict[str, Any]) -> dict[str, Any]:
    tokenizer = load_tokenizer(plan.tokenizer or plan.model)
    return evaluate(chosen, tokenizer=tokenizer, endpoint=plan.at(plan.endpoint), **common)


def _evaluate_local(plan: RunPlan, chosen: list[Question], common: dict[str, Any]) -> dict[str, Any]:
    served = VllmSettings(
        Path(plan.model),
        common["agent"]["max_context_tokens"],
        plan.concurrency,
        plan.device,
        tensor_parallel=plan.tensor_parallel,
    )
    with VllmServer(served, log=plan.out / "vllm.log", console=common["console"]) as server:
        tokenizer = load_tokenizer(
            plan.tokenizer or plan.model
        )  # seconds of imports, while the server starts
        server.wait()
        return evaluate(
            chosen, tokenizer=tokenizer, endpoint=plan.at(server.url), alive=server.check, **common
        )


def _probe(plan: RunPlan, console: Console) -> None:
    run, tokenizer = plan.out, plan.tokenizer
    if plan.local:
        folder = Path(plan.model)
        summary = probe_with_folder(run, folder, RULES, plan.device, tokenizer=tokenizer, console=console)
    else:
        served = plan.at(plan.endpoint)
        summary = probe_with_endpoint(run, served, RULES, tokenizer=tokenizer, console=console)
    console.print(probe_table(f"memories of {plan.out}", summary))
