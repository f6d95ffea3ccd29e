"""What `--dry-run` asks of a config before anything starts: what verl accepts but our layer, or verl itself, would break on."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf

from mempo.agents.factory import check_settings
from mempo.trajectory import ContextMode
from mempo.verifiers import NOT_FOR_TRAINING, VERIFIERS
from verl_patches.agents import plain
from verl_patches.group_filter import filter_arguments
from verl_patches.settings import MemoryOptions

# verl's padding rows are this long; a smaller token budget could not hold one.
PADDING_TOKENS = 128
# What a rollout is compared by: its reward, or one of the scores beside it (`records.outcome_scores`).
FILTER_METRICS = ("reward", "acc", "em", "f1", "sub_em", "format_ok")
FILTER_COUNTS = {
    "max_num_gen_batches": "a model that gets all of its questions right, or all wrong, would never end a step; write the most "
    "batches to generate for one, e.g. 10",
    "max_inflight_gen_batches": "write 1 or more",
}
NEVER_NULL = ("task", "agent", "memory")  # groups of ours in which null means nothing
OUR_KEYS = {
    "seed": (),
    "task": ("reward",),
    "agent": (
        "name",
        "max_turns",
        "max_response_tokens",
        "max_observation_tokens",
        "max_context_tokens",
        "context",
    ),
    "memory": [
        "weight",
        "likelihood",
        "threshold_p",
        "aliases",
        "reference",
        "baseline",
        "gate",
        "keep_leading_newline",
        "scorer",
        "row_credit",
        "max_failed_share",
    ],
    "search": ("url", "topk", "deadline_s", "retries"),
    "run": ("path", "sample_trajectories", "weight_sync_deadline_s", "pool_processes"),
}


def check_config(config: DictConfig) -> list[str]:
    """Problems of a composed config, each naming its key and what to write; an empty list means none was found."""
    problems = _missing(config) or _context(config)
    if problems:
        return problems
    for check in (_memory, _agent, _batch, _filter, _budgets, _storage, _trainer, _pool):
        problems += check(config)
    return problems


def longest_row(config: DictConfig) -> int:
    """Tokens of the longest training row: with history the whole window, else the longest request."""
    return int(config.agent.max_context_tokens)


def rows_per_session(config: DictConfig) -> int:
    """Training rows of the longest trajectory."""
    return 1 if ContextMode.parse(str(config.agent.context)).append_only else int(config.agent.max_turns)


def _missing(config: DictConfig) -> list[str]:
    wanted = [(group, key) for group, keys in OUR_KEYS.items() for key in keys] + [("seed", "")]
    problems = []
    for group, key in wanted:
        name = f"{group}.{key}" if key else group
        parent = config.get(group) if key else config
        if parent is None or (key or group) not in parent or OmegaConf.is_missing(parent, key or group):
            problems.append(f"{name} is not set")
        elif group in NEVER_NULL and parent[key] is None:
            problems.append(f"{name} is null: write a value")
    return problems


def _context(config: DictConfig) -> list[str]:
    try:
        ContextMode.parse(str(config.agent.context))
    except ValueError as error:
        return [f"agent.context: {error}"]
    return []


def _memory(config: DictConfig) -> list[str]:
    problems = []
    try:
        MemoryOptions.from_config(config)
    except ValueError as error:
        problems.append(str(error))
    if ContextMode.parse(str(config.agent.context)).rewritten and config.memory.reference == "history":
        problems.append(
            "memory.reference is history, but agent.context is rewritten, where no prompt holds it: write previous_memory"
        )
    if not 0 <= float(config.memory.max_failed_share) < 1:
        problems.append(
            f"memory.max_failed_share is {config.memory.max_failed_share}: write a share from 0 to below 1"
        )
    return problems


def _agent(config: DictConfig) -> list[str]:
    problems = []
    window, rollout = int(config.agent.max_context_tokens), config.actor_rollout_ref.rollout
    served = rollout.max_model_len or (rollout.prompt_length + rollout.response_length)
    if window > int(served):
        problems.append(
            f"agent.max_context_tokens is {window}, but the rollout serves {served} tokens "
            "(actor_rollout_ref.rollout.max_model_len): raise the latter"
        )
    try:
        check_settings(plain(config.agent))
    except ValueError as error:
        problems.append(str(error))
    if config.agent.get("verifier") in NOT_FOR_TRAINING:
        others = ", ".join(name for name in VERIFIERS if name not in NOT_FOR_TRAINING)
        problems.append(
            f"agent.verifier is {config.agent.verifier!r}, which rewards lists of guesses: evaluations report it, but train with "
            f"one of {others}, or module:function"
        )
    if str(config.trainer.device) == "cpu" and rollout.get("enable_chunked_prefill", True):
        problems.append(
            "actor_rollout_ref.rollout.enable_chunked_prefill is true: on a CPU, vLLM dies of the first prompt that it cuts in "
            "two, for every request has a seed; write false"
        )
    if str(config.task.reward) not in ("sum", "mean"):
        problems.append(f"task.reward is {config.task.reward!r}: write sum or mean")
    return problems


def _batch(config: DictConfig) -> list[str]:
    problems, actor, rollout = [], config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    if config.algorithm.adv_estimator != "grpo":
        problems.append(
            f"algorithm.adv_estimator is {config.algorithm.adv_estimator!r}: mempo's credit builds on grpo"
        )
    if int(rollout.n) < 2:
        problems.append(
            "actor_rollout_ref.rollout.n is 1: GRPO compares rollouts of one question, take at least 2"
        )
    if not actor.use_dynamic_bsz or not rollout.log_prob_use_dynamic_bsz:
        problems.append(
            "actor_rollout_ref.actor.use_dynamic_bsz and rollout.log_prob_use_dynamic_bsz must be true: "
            "the number of rows changes from step to step"
        )
    if actor.shuffle:
        problems.append(
            "actor_rollout_ref.actor.shuffle is true: it would tear trajectories out of their mini-batch"
        )
    if actor.loss_agg_mode != "token-mean":
        problems.append(
            f"actor_rollout_ref.actor.loss_agg_mode is {actor.loss_agg_mode!r}: its mean would count padding rows; "
            "write token-mean"
        )
    if int(config.data.train_batch_size) % int(actor.ppo_mini_batch_size):
        problems.append(
            f"data.train_batch_size ({config.data.train_batch_size}) is no multiple of "
            f"actor_rollout_ref.actor.ppo_mini_batch_size ({actor.ppo_mini_batch_size})"
        )
    if _select(config, "trainer.v1.sampler.sync_refill_failed_groups"):
        problems.append(
            "trainer.v1.sampler.sync_refill_failed_groups is true: failed sessions are never refilled here"
        )
    return problems


def _filter(config: DictConfig) -> list[str]:
    settings = config.algorithm.get("filter_groups")
    if not settings or not settings.enable:
        return []
    problems = []
    if settings.metric not in FILTER_METRICS:
        problems.append(
            f"algorithm.filter_groups.metric is {settings.metric!r}: write one of {', '.join(FILTER_METRICS)}"
        )
    for key, remedy in FILTER_COUNTS.items():
        value = settings.get(key)
        if not isinstance(value, int) or value < 1:
            shown = "null" if value is None else value
            problems.append(f"algorithm.filter_groups.{key} is {shown}: {remedy}")
    return problems


def _budgets(config: DictConfig) -> list[str]:
    model, actor, rollout = (
        config.actor_rollout_ref.model,
        config.actor_rollout_ref.actor,
        config.actor_rollout_ref.rollout,
    )
    budgets = {
        "actor.ppo_max_token_len_per_gpu": actor.ppo_max_token_len_per_gpu,
        "rollout.log_prob_max_token_len_per_gpu": rollout.log_prob_max_token_len_per_gpu,
    }
    if actor.use_kl_loss or config.algorithm.use_kl_in_reward:
        budgets["ref.log_prob_max_token_len_per_gpu"] = (
            config.actor_rollout_ref.ref.log_prob_max_token_len_per_gpu
        )
        if not config.actor_rollout_ref.ref.log_prob_use_dynamic_bsz:
            return ["actor_rollout_ref.ref.log_prob_use_dynamic_bsz must be true, as for the actor"]
    needed = max(longest_row(config), PADDING_TOKENS)
    parallel = int(actor.get("ulysses_sequence_parallel_size") or 1)
    problems = [
        f"actor_rollout_ref.{name} is {budget}: one row may have {needed} tokens (agent.max_context_tokens)"
        for name, budget in budgets.items()
        if budget is None or int(budget) * parallel < needed
    ]
    if not model.get("path"):
        problems.append("actor_rollout_ref.model.path is not set")
    return problems


def _storage(config: DictConfig) -> list[str]:
    prompts, rollouts = int(config.data.train_batch_size), int(config.actor_rollout_ref.rollout.n)
    ahead = 1 + float(_select(config, f"trainer.v1.{config.trainer.v1.trainer_mode}.num_warmup_batches") or 0)
    filtering = {} if _filter(config) else filter_arguments(config)  # what cannot be read has been named
    if filtering and config.trainer.v1.trainer_mode == "sync":
        ahead += filtering["max_inflight_gen_batches"]  # replacements, beside what is kept for the batch
    # Rows, one record per session, one marker per question, and as many padding rows again at worst.
    needed = int(prompts * ahead * (1 + rollouts * (1 + 2 * rows_per_session(config))))
    size = _select(config, "transfer_queue.backend.SimpleStorage.total_storage_size")
    if (
        config.transfer_queue.backend.storage_backend == "SimpleStorage"
        and size is not None
        and int(size) < needed
    ):
        return [
            f"transfer_queue.backend.SimpleStorage.total_storage_size is {size}: "
            f"{prompts} questions x {rollouts} rollouts x {rows_per_session(config)} rows need {needed}"
        ]
    return []


def _trainer(config: DictConfig) -> list[str]:
    problems = []
    mode = config.trainer.v1.trainer_mode
    if mode not in ("sync", "colocate_async", "separate_async"):
        problems.append(f"trainer.v1.trainer_mode is {mode!r}: write sync, colocate_async or separate_async")
    if not config.trainer.use_v1:
        problems.append("trainer.use_v1 is false: mempo extends verl's V1 trainer")
    if int(config.trainer.critic_warmup):
        problems.append(
            "trainer.critic_warmup is not 0: there is no critic, and those steps would train nothing"
        )
    if _select(config, "distillation.enabled"):
        problems.append("distillation.enabled is true: mempo does not distil")
    if _select(config, "reward.reward_model.enable"):
        problems.append("reward.reward_model.enable is true: rewards are computed from the trajectory")
    if mode == "separate_async":
        problems += _separate(config)
    return problems


def _pool(config: DictConfig) -> list[str]:
    processes = config.run.pool_processes
    if isinstance(processes, int) and processes >= 1:
        return []
    return [
        f"run.pool_processes is {processes}: write how many processes a node may have for rewards and tools, 1 or more"
    ]


def _separate(config: DictConfig) -> list[str]:
    problems, rollout, actor = [], config.actor_rollout_ref.rollout, config.actor_rollout_ref.actor
    updates = int(config.trainer.v1.separate_async.parameter_sync_step)
    if int(config.data.train_batch_size) != updates * int(actor.ppo_mini_batch_size):
        problems.append(
            f"separate_async: data.train_batch_size ({config.data.train_batch_size}) must be "
            f"trainer.v1.separate_async.parameter_sync_step ({updates}) x ppo_mini_batch_size ({actor.ppo_mini_batch_size})"
        )
    if rollout.checkpoint_engine.backend == "naive":
        problems.append(
            "separate_async: rollout.checkpoint_engine.backend is naive; write nccl or another GPU engine"
        )
    if not int(rollout.nnodes) or not int(rollout.n_gpus_per_node):
        problems.append(
            "separate_async: rollout.nnodes and rollout.n_gpus_per_node name the rollout's own devices"
        )
    if not config.actor_rollout_ref.hybrid_engine:
        problems.append(
            "separate_async: actor_rollout_ref.hybrid_engine must stay true: memories are scored on it"
        )
    return problems


def _select(config: DictConfig, key: str) -> Any:
    return OmegaConf.select(config, key, default=None)
