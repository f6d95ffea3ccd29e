"""One `mempo eval run` or `mempo eval reading`, from its options to its summary."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.agent_file import choose_template_options
from eval.api import TOKEN_IDS, Api, choose_api, recorded_api
from eval.endpoint import Endpoint, EndpointSettings
from eval.errors import EvalError
from eval.model_files import load_tokenizer, model_settings, read_config
from eval.options import RunOptions
from eval.probe_command import RULES, probe_report, probe_with_endpoint, probe_with_folder
from eval.run import data_settings, evaluate, run_settings
from eval.sample_log import SampleLog
from eval.tasks import Question, choose, read_questions
from eval.template_options import check_template_options
from eval.vllm_server import VllmServer, VllmSettings
from mempo.agents.known import known_agent
from mempo.tokens import ChatTokens
from tools.search.client import SearchSettings

LARGEST_WINDOW = 32768


@dataclass(frozen=True)
class RunPlan:
    """What to evaluate, and how.

    Attributes:
        agent: the `agent.*` settings; `context` and `max_context_tokens` may be None.
        search: None for an agent that does not search.
        template: options of the chat template.
        probe_memory: score the memories at the end.
    """

    options: RunOptions
    agent: dict[str, Any]
    search: SearchSettings | None
    template: dict[str, Any]
    probe_memory: bool = False

    @classmethod
    def of(
        cls,
        options: RunOptions,
        agent: dict[str, Any],
        search: SearchSettings | None,
        *,
        override: bool,
        probe_memory: bool = False,
    ) -> RunPlan:
        """The plan of a command.

        Args:
            override: options of the chat template may differ from those in the model's agent.json.

        Raises:
            EvalError: an option of the chat template is not NAME=VALUE, or differs without `override`.
        """
        template = choose_template_options(options.template, options.folders, override=override)
        return cls(options, agent, search, template, probe_memory)

    @property
    def tokenizer(self) -> str:
        return self.options.tokenizer or self.options.model

    def at(self, url: str) -> EndpointSettings:
        """The endpoint's settings at an address."""
        asked = self.options
        return EndpointSettings(
            url=url,
            model=Path(asked.model).resolve().name if asked.local else asked.model,
            temperature=asked.temperature,
            seed=asked.seed,
            deadline_s=asked.deadline,
            retries=asked.retries,
            api_key_env=asked.api_key_env,
            connections=asked.concurrency,
        )

    def agent_settings(self) -> dict[str, Any]:
        """The `agent.*` settings with nothing left open."""
        window = self.agent["max_context_tokens"]
        if window is None and not self.options.local:
            raise EvalError(
                "with an endpoint of your own, give --max-context-tokens: the model's window there"
            )
        if window is None:
            positions = read_config(Path(self.options.model)).get("max_position_embeddings", LARGEST_WINDOW)
            window = min(LARGEST_WINDOW, int(positions))
        context = self.agent["context"] or known_agent(str(self.agent["name"])).context
        return {**self.agent, "context": context, "max_context_tokens": window}


def carry_out(plan: RunPlan, console: Console) -> dict[str, Any]:
    """Evaluates, or goes on with it, and returns the summary.

    Raises:
        EvalError, ValueError: for an option that cannot be, or if anything but a single question fails.
    """
    options, agent = plan.options, plan.agent_settings()
    chosen = choose(read_questions(options.data), options.questions, options.seed)
    api = _api(plan)
    if plan.probe_memory and api.ran == "chat" and not options.local:
        raise EvalError(
            "--probe-memory needs log-probs of prompts, which the chat API does not have: leave it out, and run "
            "`mempo eval probe` with a model folder"
        )
    settings = run_settings(
        model=model_settings(Path(options.model)) if options.local else {"name": options.model},
        data=data_settings(options.data, chosen),
        agent=agent,
        endpoint=plan.at("http://127.0.0.1" if options.local else options.endpoint),
        search=plan.search,
        api=api,
        chat_template_kwargs=plan.template,
        references=[question.reference for question in chosen],
    )
    log = SampleLog(options.out, settings)
    summary = log.finished()
    if summary is not None and not (options.retry_failed and summary["failed"]):
        console.print(f"{options.out} is finished; nothing to do")
    else:
        if options.template:
            check_template_options(load_tokenizer(plan.tokenizer), options.template)
        if api.ran == "chat":
            console.print(f"over chat messages: {api.why}", highlight=False)
        common: dict[str, Any] = {
            "agent": agent,
            "api": api.ran,
            "search": plan.search,
            "log": log,
            "console": console,
            "chat_template_kwargs": plan.template,
            "retry_failed": options.retry_failed,
        }
        summary = _evaluate_local(plan, chosen, common) if options.local else _evaluate(plan, chosen, common)
    if plan.probe_memory:
        _probe(plan, console)
    return summary


def _api(plan: RunPlan) -> Api:
    options, recorded = plan.options, recorded_api(plan.options.out)
    if recorded is not None and options.api in ("auto", recorded.ran):
        return recorded
    if options.local and options.api == "auto":
        return TOKEN_IDS  # as vLLM has it

    async def ask() -> Api:
        async with Endpoint(plan.at("http://127.0.0.1" if options.local else options.endpoint)) as endpoint:
            if options.api == "auto":
                await endpoint.check()
            return await choose_api(endpoint, options.api, tokens)

    tokens = ChatTokens(load_tokenizer(plan.tokenizer))
    return asyncio.run(ask())


def _evaluate(plan: RunPlan, chosen: list[Question], common: dict[str, Any]) -> dict[str, Any]:
    tokenizer = load_tokenizer(plan.tokenizer)
    return evaluate(chosen, tokenizer=tokenizer, endpoint=plan.at(plan.options.endpoint), **common)


def _evaluate_local(plan: RunPlan, chosen: list[Question], common: dict[str, Any]) -> dict[str, Any]:
    options = plan.options
    served = VllmSettings(
        Path(options.model),
        common["agent"]["max_context_tokens"],
        options.concurrency,
        options.device,
        tensor_parallel=options.tensor_parallel,
    )
    with VllmServer(served, log=options.out / "vllm.log", console=common["console"]) as server:
        tokenizer = load_tokenizer(plan.tokenizer)  # seconds of imports, while the server starts
        server.wait()
        return evaluate(
            chosen,
            tokenizer=tokenizer,
            model_dir=served.model_dir,
            endpoint=plan.at(server.url),
            alive=server.check,
            **common,
        )


def _probe(plan: RunPlan, console: Console) -> None:
    run, tokenizer = plan.options.out, plan.options.tokenizer
    if plan.options.local:
        folder, device = Path(plan.options.model), plan.options.device
        summary = probe_with_folder(run, folder, RULES, device, tokenizer=tokenizer, console=console)
    else:
        served = plan.at(plan.options.endpoint)
        summary = probe_with_endpoint(run, served, RULES, tokenizer=tokenizer, console=console)
    console.print(probe_report(f"memories of {run}", summary))
