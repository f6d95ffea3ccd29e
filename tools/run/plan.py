"""What a run is going to do, and what stands in its way: the text of --dry-run."""

from __future__ import annotations

import os
from dataclasses import dataclass

from omegaconf import DictConfig

from tools.run.checkpoint import Checkpoint, resumption
from tools.run.data import check_task
from tools.run.errors import RunError
from tools.run.evaluation import contexts
from tools.run.machine import check_installation, gpus, installed_set
from tools.run.model import check_model, describe_model, missing_from_hub
from tools.run.question_files import QuestionFiles
from tools.run.search import check_search, searches


@dataclass(frozen=True)
class Plan:
    """Stages in order with what each does, notes about this machine, and problems that stop a run."""

    stages: list[tuple[str, str]]
    notes: list[str]
    problems: list[str]

    def text(self) -> str:
        """The plan as lines."""
        width = max(len(name) for name, _ in self.stages)
        lines = [f"  {name:<{width}}  {what}" for name, what in self.stages]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


def make_plan(config: DictConfig) -> Plan:
    """Resolves and checks a config without starting anything; works for GPU recipes on a machine without GPU."""
    questions, resumed = QuestionFiles(config), resumption(config)
    notes = [*_notes(config), *resumed.notes, *questions.notes]
    return Plan(_stages(config, resumed.checkpoint), notes, _check(config, questions, resumed.problem))


def check(config: DictConfig) -> list[str]:
    """What does not go together in a config whose values are right, each line naming its key.

    What follows from the machine is in the notes instead.
    """
    return _check(config, QuestionFiles(config), resumption(config).problem)


def _check(config: DictConfig, questions: QuestionFiles, resuming: str | None) -> list[str]:
    problems = check_task(config) + questions.problems + check_search(config) + check_model(config)
    problems += [resuming] if resuming else []
    from verl_patches.check import check_config

    return problems + check_config(config)


def ready(config: DictConfig) -> list[str]:
    """What keeps this machine from running the config now: the wrong set of packages, or too few GPUs."""
    problems = []
    try:
        check_installation(str(config.trainer.device))
    except RunError as error:
        problems.append(str(error))
    if config.trainer.device != "cpu":  # there it is in the checks: CPU runs never ask the hub
        problems += missing_from_hub(config)
    wanted, found = int(config.trainer.n_gpus_per_node), gpus()
    if config.trainer.device != "cpu" and not os.environ.get("RAY_ADDRESS") and len(found) < wanted:
        problems.append(
            f"trainer.n_gpus_per_node is {wanted}, but nvidia-smi lists {len(found)} GPUs here: "
            "use a machine that has them, join a cluster with RAY_ADDRESS, or lower the number"
        )
    return problems


def _stages(config: DictConfig, done: Checkpoint | None) -> list[tuple[str, str]]:
    task, trainer, rollout = config.task, config.trainer, config.actor_rollout_ref.rollout
    source = {
        "world": "generated",
        "reading": "documents generated",
        "hotpotqa": f"from {task.get('input')}",
        "parquet": f"in {task.get('data_dir')}",
    }
    ranks = int(trainer.nnodes) * int(trainer.n_gpus_per_node)
    server = f"the server at {config.search.url}" if config.search.url else "a server of our own (BM25)"
    search = f"{server}, top {config.search.topk}" if searches(config) else "none: the agent does not search"
    questions = int(config.run.eval_questions)
    evaluation = (
        f"{questions} held-out questions, greedy, contexts {' and '.join(contexts(config))}"
        if questions
        else "left out"
    )
    resumed = f", resumed from step {done.step}" if done else ""
    return [
        ("run", str(config.run.path)),
        ("data", f"{task.name}, {source.get(task.name, '?')}; seed {config.seed}"),
        ("model", describe_model(config)),
        ("search", search),
        ("evaluate before", evaluation),
        (
            "train",
            f"{trainer.total_training_steps} steps{resumed} of {config.data.train_batch_size} questions x {rollout.n} "
            f"rollouts on {ranks} {trainer.device} rank(s), {trainer.v1.trainer_mode}; context {config.agent.context}, "
            f"memory weight {config.memory.weight}, likelihood {config.memory.likelihood}",
        ),
        ("evaluate after", evaluation),
        ("report", "summary.json, environment.json, report.html, readable trajectories"),
    ]


def _notes(config: DictConfig) -> list[str]:
    found = gpus()
    notes = [
        f"this machine: {len(found)} GPU(s)"
        + (f" ({found[0]})" if found else "")
        + f", set {installed_set() or 'unknown'}"
    ]
    return notes + [f"not ready here: {problem}" for problem in ready(config)]
