"""The proof by the agent: held-out questions answered by the served release, and set beside the training side's answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.hashing import file_sha256
from tools.release.errors import ReleaseError
from tools.release.greedy import Parting, part
from tools.release.results import THIS, Result

if TYPE_CHECKING:
    from rich.console import Console

    from eval.endpoint import EndpointSettings
    from eval.tasks import Question
    from mempo.tokens import ChatTokens
    from tools.run.data import DataFolder


def reference_for(
    results: Sequence[Result],
    agent: Mapping[str, Any],
    topk: int,
    data: DataFolder,
    template: Mapping[str, Any],
) -> Result | None:
    """The training side's evaluation with the same weights, agent, search and questions file; None without one.

    Args:
        template: options of the chat template, which have to be the same too.
    """
    from eval.sample_log import TEMPLATE

    questions = file_sha256(data.validation)
    search = {"topk": topk} if data.corpus.is_file() else None
    for result in results:
        settings = result.settings
        alike = (
            result.subject == THIS
            and settings["agent"] == dict(agent)
            and settings.get(TEMPLATE, {}) == dict(template)
            and settings.get("search") == search
            and settings["sampling"]["temperature"] == 0
            and settings["data"]["sha256"] == questions
            and settings.get("api", "completions") == "completions"
        )
        if alike:
            return result
    return None


def choose_questions(path: Path, count: int, seed: int, reference: Result | None) -> list[Question]:
    """`count` questions of a file, from those that the reference has answered.

    Raises:
        ReleaseError: the file cannot be read.
    """
    from eval.errors import EvalError
    from eval.tasks import choose, read_questions

    try:
        known = read_questions(path)
        if reference is not None:
            known = [question for question in known if question.task.id in reference.samples]
        return choose(known, min(count, len(known)), seed)
    except EvalError as error:
        raise ReleaseError(f"--data: {error}") from error


def answer(
    questions: Sequence[Question],
    data: DataFolder,
    *,
    tokens: ChatTokens,
    agent: Mapping[str, Any],
    topk: int,
    endpoint: EndpointSettings,
    work: Path,
    console: Console,
) -> dict[str, dict[str, Any]]:
    """The samples by id, answered over the served release and a search server of our own.

    Args:
        work: folder for samples and logs.

    Raises:
        ReleaseError: the search server does not start, or a question failed.
    """
    from eval.errors import EvalError
    from eval.run import data_settings, evaluate, run_settings
    from eval.sample_log import SampleLog
    from tools.search.client import SearchSettings
    from tools.search.process import SearchProcess
    from tools.search.settings import ServerError

    with ExitStack() as stack:
        try:
            search = None
            if data.corpus.is_file():  # agents that read have none
                server = SearchProcess(data.corpus, log=work / "search.log").start()
                stack.callback(server.stop)
                search = SearchSettings(server.url, topk=topk)
            settings = run_settings(
                model={"name": endpoint.model},
                data=data_settings(data.validation, questions),
                agent=agent,
                endpoint=endpoint,
                search=search,
                chat_template_kwargs=tokens.chat_template_kwargs,
            )
            log = SampleLog(work / "questions", settings)
            summary = evaluate(
                questions,
                tokenizer=tokens.tokenizer,
                agent=agent,
                endpoint=endpoint,
                search=search,
                log=log,
                console=console,
                chat_template_kwargs=tokens.chat_template_kwargs,
                title="questions",
            )
        except (EvalError, ServerError) as error:
            raise ReleaseError(f"questions through the agent: {error}") from error
    if summary["failed"]:
        raise ReleaseError(f"questions through the agent: {summary['failed']} failed: {summary['failures']}")
    return log.samples


def compare(
    model: Any,
    samples: Mapping[str, dict[str, Any]],
    reference: Mapping[str, dict[str, Any]],
    near_tie: float,
) -> dict[str, Any]:
    """How many samples are those of the reference, token by token, and for each other one the cause.

    Args:
        model: the release in transformers; tells by how much it prefers one token over another.
        near_tie: differences of logits up to this are one (`tools.release.greedy`).

    Returns:
        `compared`, `same`, `right_before`, `right_now`, and `differences`: id, cause, turn, position and gap. Causes:
        `near_tie`; `weights`: the release in transformers prefers its own token too, for its weights were rounded;
        `engine`: vLLM wrote what transformers would not; `search`: another result; `length`: a turn more or less;
        `failed`.
    """
    from eval.sample import is_right

    differences = [
        {"id": name, **found}
        for name, sample in samples.items()
        if (found := _difference(model, sample, reference[name], near_tie)) is not None
    ]
    return {
        "compared": len(samples),
        "same": len(samples) - len(differences),
        "right_before": sum(is_right(reference[name]) for name in samples),
        "right_now": sum(map(is_right, samples.values())),
        "causes": dict(sorted(Counter(str(each["cause"]) for each in differences).items())),
        "differences": differences,
    }


def _difference(
    model: Any, sample: dict[str, Any], before: dict[str, Any], near_tie: float
) -> dict[str, Any] | None:
    from eval.sample import trajectory_of

    now, then = trajectory_of(sample), trajectory_of(before)
    if now is None or then is None:
        return {"cause": "failed", "turn": 0}
    for number, (new, old) in enumerate(zip(now.turns, then.turns, strict=False), 1):
        if new.prompt_ids != old.prompt_ids:
            return {"cause": "search", "turn": number}
        if new.response_ids != old.response_ids:
            prompt = [*new.prompt_ids, *new.prefix_ids]
            found: Parting = part(model, number, prompt, old.response_ids, new.response_ids)
            cause = "engine"
            if found.is_near_tie(near_tie):
                cause = "near_tie"
            elif found.gap is not None and found.gap < 0:
                cause = "weights"
            return {"cause": cause, "turn": number, "position": found.position, "gap": found.gap}
    return {"cause": "length", "turn": 0} if len(now.turns) != len(then.turns) else None
