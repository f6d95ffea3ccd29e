"""The rules of our own keys: `seed`, `task.*`, `agent.*`, `memory.*`, `search.*` and `run.*`."""

from __future__ import annotations

from typing import Any

from tools.run.schema.rule import (
    Rule,
    flag,
    left_alone,
    listed,
    number,
    one_of,
    parsed,
    text,
    whole,
)

GROUPS = ("task", "agent", "memory", "search", "run")
SEED = whole(0, 2**32 - 1)  # what numpy's generators take


def our_rules(task: Any, agent: Any, cold_start: Any) -> dict[str, Rule]:
    """Key → rule.

    Args:
        task: `task.name`, which says what else `task.*` holds.
        agent: `agent.name`; of an agent of one's own only what the trainer reads has rules.
        cold_start: `run.cold_start`, which needs keys of its own.
    """
    rules: dict[str, Rule] = {"seed": SEED}
    for group, keys in (
        ("task", _task(task)),
        ("agent", _agent(own_agent(agent))),
        ("memory", _memory()),
        ("search", _search()),
        ("run", _run()),
        ("run.sft", _sft(cold_start)),
    ):
        rules |= {f"{group}.{key}": rule for key, rule in keys.items()}
    return rules


def own_agent(name: Any) -> bool:
    """Whether `agent.name` is a user's `module:function`, whose further keys are its own affair."""
    return isinstance(name, str) and ":" in name


def task_rules() -> dict[str, dict[str, Rule]]:
    """Task → the rules of its own keys under `task.*`."""
    from tools.data.convert import DATASETS

    path = text("the path of a file")
    paths = listed(path, single=True).or_null()
    return {
        "world": {"seed": SEED, "train": whole().or_null(), "validation": whole().or_null()},
        "reading": {"seed": SEED, "train": whole(), "validation": whole(), "chunks": listed(whole())},
        "hotpotqa": {
            "dataset": one_of(DATASETS),
            "input": paths,
            "validation_input": paths,
            "validation_share": number(above=0, below=1),
            "aliases": path.or_null(),
            "objectives": whole(),
            "strict": flag(),
            "seed": SEED,
        },
        "parquet": {"data_dir": text("a folder").or_null()},
    }


def tasks_with(key: str) -> list[str]:
    """The tasks that have the key `task.*`."""
    return [task for task, rules in task_rules().items() if key.removeprefix("task.") in rules]


def _task(name: Any) -> dict[str, Rule]:
    from mempo.reward import OBJECTIVES

    tasks = task_rules()
    own = tasks.get(name, {}) if isinstance(name, str) else {}
    return {"name": one_of(tasks), "reward": one_of(OBJECTIVES), **own}


def _agent(own: bool) -> dict[str, Rule]:
    from mempo.agents.factory import AGENTS
    from mempo.prompts import READING_PROMPTS, SYSTEM_PROMPTS
    from mempo.trajectory import ContextMode
    from mempo.verifiers import VERIFIERS

    read_by_the_trainer = {
        "name": one_of(AGENTS, own=True),
        "context": parsed(ContextMode.parse, "history, window:k (e.g. window:1) or rewritten"),
        "max_turns": whole(),
        "max_response_tokens": whole(),
        "max_observation_tokens": whole(),
        "max_context_tokens": whole(),
    }
    if own:
        return read_by_the_trainer
    return read_by_the_trainer | {
        "prompt": one_of(dict.fromkeys([*SYSTEM_PROMPTS, *READING_PROMPTS])),
        "force_memory_prefix": flag(),
        "verifier": one_of(VERIFIERS, own=True).or_null().optional(),
        "max_question_tokens": whole().optional(),
        "max_answer_tokens": whole().optional(),
    }


def _memory() -> dict[str, Rule]:
    from mempo.credit import BASELINES, GATES, ROW_CREDITS
    from mempo.likelihood import RULES
    from mempo.memory_scores import ALIASES, REFERENCES
    from verl_patches.names import SCORERS

    return {
        "weight": number(low=0),
        "likelihood": one_of(RULES),
        "threshold_p": number(above=0, below=1),
        "aliases": one_of(ALIASES),
        "reference": one_of(REFERENCES),
        "baseline": one_of(BASELINES),
        "gate": one_of(GATES),
        "keep_leading_newline": flag(),
        "scorer": one_of(SCORERS),
        "row_credit": one_of(ROW_CREDITS),
        "equal_turns": flag().optional(),
        "max_failed_share": number(low=0, below=1),
    }


def _search() -> dict[str, Rule]:
    return {
        "url": text("an address, e.g. http://host:8000", r"https?://\S+").or_null(),
        "token_env": text("the name of an environment variable", r"[A-Za-z_]\w*").or_null(),
        "topk": whole(0),
        "deadline_s": number(above=0),
        "retries": whole(0),
        "port": whole(0, 65535),
        "ready_deadline_s": number(above=0),
    }


def _run() -> dict[str, Rule]:
    from tools.run.model import COLD_STARTS

    return {
        "name": text(
            "letters, digits, dots, dashes and underscores, the first a letter or digit",
            r"[A-Za-z0-9][A-Za-z0-9._-]*",
            digits=True,
        ).or_null(),
        "dir": text("a folder"),
        "cache": text("a folder"),
        "path": left_alone("set run.dir and run.name"),
        "sample_trajectories": whole(0),
        "eval_questions": whole(0, why="0 leaves the evaluation out"),
        "eval_concurrency": whole(),
        "weight_sync_deadline_s": number(above=0),
        "pool_processes": whole(),
        "cold_start": one_of(COLD_STARTS),
    }


def _sft(cold_start: Any) -> dict[str, Rule]:
    read = {"demonstrations": whole(), "forgetful": number(low=0, high=1)}
    return {
        "steps": whole().or_null(),
        "drill_steps": whole(0).or_null(),
        "epochs": whole(),
        "batch_size": whole(),
        "lr": number(above=0, high=1),
        **(read if cold_start == "reading" else {key: rule.optional() for key, rule in read.items()}),
    }
