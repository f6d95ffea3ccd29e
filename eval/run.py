"""Runs an agent over questions, some at a time, and writes each sample as it finishes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.api import TOKEN_IDS, Api, check_continuation, model_maker
from eval.endpoint import Endpoint, EndpointSettings
from eval.language_model import EndpointModel
from eval.progress import EvalProgress
from eval.refusals import Refusals, check_any_answered, failure_of
from eval.sample import Sample, answered_sample, failed_sample
from eval.sample_log import REMARKS, TEMPLATE, SampleLog
from eval.summary import summarize
from eval.tasks import Question
from mempo.agents.base import Agent, RolloutError
from mempo.agents.factory import build_agent
from mempo.agents.known import known_agent
from mempo.answers import only_articles
from mempo.pool import pool_in_use
from mempo.probe import BOXED_ANSWER
from mempo.process_pool import ProcessPool
from mempo.prompts import system_prompt
from mempo.reward import judge
from mempo.task import Reference
from mempo.tokens import ChatTokens
from tools.search.client import SearchClient, SearchSettings

logger = logging.getLogger(__name__)

POOL_PROCESSES = 4  # at most, for rewards and tools that ask for the pool


def evaluate(
    questions: Sequence[Question],
    *,
    tokenizer: Any,
    agent: Mapping[str, Any],
    endpoint: EndpointSettings,
    search: SearchSettings | None,
    log: SampleLog,
    console: Console,
    api: str = "completions",
    chat_template_kwargs: Mapping[str, Any] | None = None,
    model_dir: Path | None = None,
    title: str = "evaluation",
    retry_failed: bool = False,
    alive: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Answers all questions that `log` does not hold yet, and writes the summary.

    Args:
        agent: the `agent.*` settings, `context` among them.
        api: `completions` or `chat` (`eval.api`).
        chat_template_kwargs: options of the chat template, those of training.
        model_dir: the model's folder, where the tokenizer was loaded from another.
        alive: raises EvalError if the server behind the endpoint has died.

    Returns:
        The summary over all samples of `questions`, those of earlier runs included (`eval.summary.summarize`).

    Raises:
        EvalError: if the endpoint is unreachable or refuses every question (`eval.refusals`), the folder belongs to other
            settings, or every question failed; then there is no summary, and the same command asks again. A question that
            fails among others never raises: it becomes a failed sample.
    """
    with log:
        nothing = bool(log.samples) and all(map(failure_of, log.samples.values()))
        if (retry_failed or nothing) and (dropped := log.drop_failed()):
            console.print(f"{title}: {dropped} failed questions are asked again")
        missing = [question for question in questions if question.task.id not in log.samples]
        if missing:
            asyncio.run(
                _answer_all(
                    missing,
                    len(questions),
                    ChatTokens(tokenizer, model=model_dir, chat_template_kwargs=chat_template_kwargs),
                    agent,
                    endpoint,
                    api,
                    search,
                    log,
                    console,
                    title,
                    alive,
                )
            )
        samples = [log.samples[question.task.id] for question in questions]
        check_any_answered([failure_of(sample) for sample in samples])
        summary = summarize(samples)
        log.write_summary(summary)
    return summary


async def _answer_all(
    missing: Sequence[Question],
    total: int,
    tokens: ChatTokens,
    agent_settings: Mapping[str, Any],
    endpoint_settings: EndpointSettings,
    api: str,
    search: SearchSettings | None,
    log: SampleLog,
    console: Console,
    title: str,
    alive: Callable[[], None] | None,
) -> None:
    client = SearchClient.from_settings(search) if search is not None else None
    agent = build_agent(agent_settings, tokens, client)
    async with Endpoint(endpoint_settings) as endpoint:
        model = model_maker(api, endpoint, tokens)

        async def check() -> None:
            if alive is not None:
                alive()
            await endpoint.check()

        try:
            await check()
            if api == "chat" and agent_settings.get("force_memory_prefix"):
                await check_continuation(endpoint, tokens)
            with EvalProgress(console, title, total, list(log.samples.values())) as progress:
                refusals = Refusals()

                def write(samples: Sequence[Sample]) -> None:
                    for sample in samples:
                        log.append(sample)
                        progress.add(sample)

                with closing(ProcessPool(POOL_PROCESSES)) as pool, pool_in_use(pool):
                    await answer_questions(
                        missing,
                        agent,
                        lambda question: model(question.task.id),
                        finished=lambda sample: write(refusals.passed(sample)),
                        check=check,
                        concurrency=endpoint_settings.connections,
                    )
                    write(refusals.rest())
        finally:
            if client is not None:
                await client.aclose()


async def answer_questions(
    questions: Sequence[Question],
    agent: Agent,
    model: Callable[[Question], EndpointModel],
    *,
    finished: Callable[[Sample], None],
    check: Callable[[], Awaitable[None]],
    concurrency: int,
) -> None:
    """Hands each question to `agent` and each sample to `finished`, at most `concurrency` at a time.

    Args:
        check: awaited before a lost connection counts as a failure of the question; raises if the endpoint is gone,
            which ends the run and leaves the question open.
    """
    waiting = iter(questions)

    async def worker() -> None:
        for question in waiting:
            sample = await _answer(question, agent, model(question))
            if sample["failure"] and sample["failure"]["cause"] == "connection":
                await check()
            finished(sample)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(questions))):
                group.create_task(worker())
    except BaseExceptionGroup as error:
        # One cause is enough to read; the others are workers that met the same end.
        raise error.exceptions[0] from None


async def _answer(question: Question, agent: Agent, model: EndpointModel) -> Sample:
    started = time.perf_counter()
    boxed = agent.probe_format == BOXED_ANSWER
    try:
        trajectory = await agent.run(question.task, model)
        outcome = await judge(trajectory, question.reference, objectives="mean", verifier=agent.verifier)
        seconds = time.perf_counter() - started
        sample = answered_sample(question, trajectory, outcome, seconds=seconds, boxed=boxed)
        return _with_costs(sample, model)
    except RolloutError as error:
        cause, message = error.cause, str(error)
    except (
        Exception
    ) as error:  # a fault of ours must cost one question, not the run; it is counted by its type
        logger.exception("question %r failed", question.task.id)
        cause, message = f"error_{type(error).__name__}", str(error)
    seconds = time.perf_counter() - started
    return _with_costs(failed_sample(question, cause, message, seconds=seconds, boxed=boxed), model)


def _with_costs(sample: Sample, model: EndpointModel) -> Sample:
    """Adds what the API told; our own counts are named as the estimates that they are where its ids are not ours."""
    told = asdict(model.usage) if model.usage else None
    sample = {**sample, "usage": told, "has_logprobs": model.exact}
    if not model.exact:
        sample["estimated_tokens"] = sample.pop("tokens")
    return sample


def run_settings(
    *,
    model: Mapping[str, Any],
    data: Mapping[str, Any],
    agent: Mapping[str, Any],
    endpoint: EndpointSettings,
    search: SearchSettings | None,
    api: Api = TOKEN_IDS,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    references: Sequence[Reference] = (),
) -> dict[str, Any]:
    """All that could change a sample. Addresses, deadlines and concurrency could not, and may differ on resume.

    Args:
        references: of the questions; they say which version of the scorer their numbers tell apart.
    """
    sampling = {key: asdict(endpoint)[key] for key in ("temperature", "seed")}
    if endpoint.temperature == 0:
        sampling["seed"] = None  # greedy takes none
    try:
        prompt: str | None = system_prompt(str(agent.get("prompt")), str(agent.get("name")))
    except ValueError:
        prompt = None  # of an agent of your own
    template = {TEMPLATE: dict(chat_template_kwargs)} if chat_template_kwargs else {}
    return {
        "version": _version(agent, references),
        "model": dict(model),
        "api": api.ran,
        "data": dict(data),
        "agent": dict(agent),
        **template,
        "prompt_sha256": hashlib.sha256(prompt.encode()).hexdigest() if prompt else None,
        "sampling": sampling,
        "search": {"topk": search.topk} if search is not None else None,
        REMARKS: {"api": api.why},
    }


def data_settings(path: Path, chosen: Sequence[Question]) -> dict[str, Any]:
    """What identifies the questions: the file's hash and which of its rows were chosen."""
    rows = ",".join(str(question.index) for question in chosen)
    return {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "questions": len(chosen),
        "rows_sha256": hashlib.sha256(rows.encode()).hexdigest(),
    }


def _version(agent: Mapping[str, Any], references: Sequence[Reference]) -> int:
    """Of a sample's fields and of what they mean.

    2, but 3 where `lenient` counts several objectives: it takes them anywhere in the answer, as version 2 did not. 4 where a
    gold answer is an article alone, which no prediction matched before.
    """
    if any(only_articles(alias) for each in references for aliases in each.answers for alias in aliases):
        return 4
    lenient = agent.get("verifier") == "lenient" or known_agent(str(agent.get("name"))).boxed is not False
    return 3 if lenient and any(len(each.answers) > 1 for each in references) else 2
