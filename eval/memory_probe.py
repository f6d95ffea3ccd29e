"""How well the memories of a finished evaluation support the answer: P(answer | memory) and P(answer | reference) by turn.

The reference is the history, or the memory before where every prompt was written anew and none holds a history.

The probes, the likelihood rules and the status of each turn are those of training (`mempo.memory_scores`), so memories of
any checkpoint are measured alike, by its own weights or by those of another model with the same tokenizer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from rich.console import Console

from eval.errors import EvalError
from eval.probe_log import ProbeLine, ProbeLog
from eval.refusals import Failure, check_any_answered, refused_alike
from eval.sample import Sample, trajectory_of
from eval.sample_log import TEMPLATE, read_folder
from mempo.agents.base import RolloutError, ToolReply
from mempo.agents.factory import build_agent
from mempo.memory_scores import STATUSES, MemoryPlan, MemorySettings, TurnScore, plan_probes
from mempo.probe import Probe
from mempo.task import Reference
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode, Trajectory

AT_ONCE = 16  # samples between two writes
# Of what a probe is, and which of its tokens count. From 2 on, separators and blanks around gold are no answer, the best
# alias is chosen without a threshold, and whatever followed a memory stays out of its probe.
VERSION = 2


class MemoryScorer(Protocol):
    """A model of this process (`eval.local_scorer`) or behind an endpoint (`eval.prompt_logprobs`)."""

    def answer_logprobs(self, probes: Sequence[Sequence[Probe]]) -> list[list[torch.Tensor] | RolloutError]:
        """For every trajectory one tensor per probe ([A], natural log), or what went wrong with it."""
        ...


def probe_memories(
    folder: Path,
    scorer: Callable[[], MemoryScorer],
    *,
    tokenizer: Any,
    model: Mapping[str, Any],
    memory: MemorySettings,
    console: Console,
) -> dict[str, Any]:
    """Scores the memories of all samples in `folder` that have none yet, and writes the summary.

    Args:
        folder: of an evaluation.
        scorer: made only if something is left to score.
        tokenizer: of the scoring model; it has to be that of the evaluated one, whose token ids are scored.
        model: what identifies the scoring model.
        memory: how to score; its reference follows from the trajectories.

    Returns:
        `summarize_probes` over all samples, with `unscored`: cause → samples that failed this time. The same command
        tries those again.

    Raises:
        EvalError: if the folder is none, the tokenizer is another one, or nothing that was asked for was scored.
    """
    settings, samples = read_folder(folder)
    tokens = ChatTokens(tokenizer, chat_template_kwargs=settings.get(TEMPLATE))
    form = build_agent(settings["agent"], tokens, _no_search).probe_format
    memory = replace(memory, reference=_reference(settings, samples.values()))
    log = ProbeLog(folder, {"version": VERSION, "model": dict(model), "memory": asdict(memory)})
    missing = [sample for name, sample in samples.items() if name not in log.lines]
    failures: list[Failure | None] = []  # one entry for each sample that has something to score
    scoring = scorer() if missing else None
    for start in range(0, len(missing), AT_ONCE):
        assert scoring is not None
        part = missing[start : start + AT_ONCE]
        plans = [_plan(sample, tokens, form, memory) for sample in part]
        found = scoring.answer_logprobs([plan.probes if plan else [] for plan in plans])
        for sample, plan, scores in zip(part, plans, found, strict=True):
            failure = (scores.cause, str(scores)) if isinstance(scores, RolloutError) else None
            if plan is not None and plan.probes:
                failures.append(failure)
            if not isinstance(scores, RolloutError):
                turns = _turns(plan.scores(scores) if plan else [], memory.reference)
                log.append({"id": sample["id"], "probe": turns})
        if refused_alike(failures):
            break
        console.print(
            f"memories: {min(start + AT_ONCE, len(missing))}/{len(missing)} questions", highlight=False
        )
    check_any_answered(failures, what="questions that were to be scored")
    unscored = Counter(failure[0] for failure in failures if failure)
    summary = {
        **summarize_probes(log.lines.values(), memory.reference),
        "unscored": dict(sorted(unscored.items())),
    }
    log.write_summary(summary)
    return summary


def summarize_probes(lines: Iterable[ProbeLine], reference: str) -> dict[str, Any]:
    """Means over all scored turns.

    Args:
        reference: what memories were compared with: `history` or `previous_memory`.

    Returns:
        `reference`; `questions`; `turns`; `statuses`: how many turns have each status of `mempo.memory_scores` (they add
        up to `turns`); `n`, `p_memory`, `p_history` or `p_previous_memory`, `helps` (the share of scored turns in which
        the first is greater than the second) over the scored turns; and the same four under `by_turn`, from turn 1. Means
        are None where nothing was scored.
    """
    lines = list(lines)
    turns = [turn for line in lines for turn in line["probe"]]
    counts = Counter(turn["status"] for turn in turns)
    by_turn: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for turn in turns:
        by_turn[turn["turn"] + 1].append(turn)
    means = {str(number): _means(by_turn[number], reference) for number in sorted(by_turn)}
    return {
        "reference": reference,
        "questions": len(lines),
        "turns": len(turns),
        "statuses": {status: counts[status] for status in STATUSES},
        **_means(turns, reference),
        "by_turn": {number: values for number, values in means.items() if values["n"]},
    }


def _reference(settings: Mapping[str, Any], samples: Iterable[Sample]) -> str:
    trajectories = (sample["trajectory"] for sample in samples if sample["trajectory"])
    contexts = [settings["agent"].get("context"), *(trajectory["context"] for trajectory in trajectories)]
    return "previous_memory" if str(ContextMode(rewritten=True)) in contexts else "history"


def _plan(sample: Sample, tokens: ChatTokens, form: Any, memory: MemorySettings) -> MemoryPlan | None:
    trajectory = trajectory_of(sample)
    if trajectory is None:
        return None
    _check_tokenizer(sample, trajectory, tokens)
    return plan_probes(trajectory, Reference(sample["answers"]), tokens, form, memory)


def _check_tokenizer(sample: Sample, trajectory: Trajectory, tokens: ChatTokens) -> None:
    said = [turn for turn in trajectory.turns if turn.memory_text]
    spelled = [turn.memory_text in tokens.decode(turn.written_ids) for turn in said]
    if trajectory.generation_prompt_ids != tokens.generation_prompt_ids or (said and not any(spelled)):
        raise EvalError(
            f"sample {sample['id']!r}: its token ids are not of this tokenizer, which reads its prompt as "
            f"{tokens.decode(trajectory.first_prompt_ids)[:80]!r}: give a model with the tokenizer of the evaluated one"
        )


def _turns(scores: Sequence[TurnScore], reference: str) -> list[dict[str, Any]]:
    return [
        {
            "turn": score.turn,  # 0-based
            "status": score.status,
            "p_memory": score.p_memory if score.status == "scored" else None,
            f"p_{reference}": score.p_reference if score.status == "scored" else None,
            "kept": score.kept,
        }
        for score in scores
    ]


def _means(turns: Sequence[Mapping[str, Any]], reference: str) -> dict[str, Any]:
    scored = [turn for turn in turns if turn["status"] == "scored"]
    count = len(scored)

    def mean(values: Iterable[float]) -> float | None:
        return sum(values) / count if count else None

    return {
        "n": count,
        "p_memory": mean(turn["p_memory"] for turn in scored),
        f"p_{reference}": mean(turn[f"p_{reference}"] for turn in scored),
        "helps": mean(float(turn["p_memory"] > turn[f"p_{reference}"]) for turn in scored),
    }


async def _no_search(query: str) -> ToolReply:
    raise AssertionError("scoring a finished trajectory searches for nothing")
