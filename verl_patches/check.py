"""What `--dry-run` asks of a config whose values are right one by one: what does not go together, in our layer or in verl."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf

from mempo.agents.factory import check_settings
from mempo.trajectory import ContextMode
from mempo.verifiers import NOT_FOR_TRAINING, VERIFIERS
from verl_patches.agents import plain
from verl_patches.group_filter import check_filter, filter_arguments

# verl's padding rows are this long; a smaller token budget could not hold one.
PADDING_TOKENS = 128


def check_config(config: DictConfig) -> list[str]:
    """Problems of a composed config, each naming its key and what to write; an empty list means none was found."""
    problems = []
    for check in (_memory, _agent, _batch, check_filter, _budgets, _storage, _separate):
        problems += check(config)
    return problems


def longest_row(config: DictConfig) -> int:
    """Tokens of the longest training row: with history the whole window, else the longest request."""
    return int(config.agent.max_context_tokens)


def rows_per_session(config: DictConfig) -> int:
    """Training rows of the longest trajectory."""
    return 1 if ContextMode.parse(str(config.agent.context)).append_only else int(config.agent.max_turns)


def _memory(config: DictConfig) -> list[str]:
    if ContextMode.parse(config.agent.context).rewritten and config.memory.reference == "history":
        return [
            "memory.reference is history, but agent.context is rewritten, where no prompt holds it: write previous_memory"
        ]
    return []


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
    return problems


def _batch(config: DictConfig) -> list[str]:
    questions, mini_batch = config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size
    if questions % mini_batch:
        return [
            f"data.train_batch_size ({questions}) is no multiple of actor_rollout_ref.actor.ppo_mini_batch_size ({mini_batch})"
        ]
    return []


def _budgets(config: DictConfig) -> list[str]:
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
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
    return [
        f"actor_rollout_ref.{name} is {budget}: one row may have {needed} tokens (agent.max_context_tokens)"
        for name, budget in budgets.items()
        if int(budget) * parallel < needed
    ]


def _storage(config: DictConfig) -> list[str]:
    prompts, rollouts = int(config.data.train_batch_size), int(config.actor_rollout_ref.rollout.n)
    ahead = 1 + float(_select(config, f"trainer.v1.{config.trainer.v1.trainer_mode}.num_warmup_batches") or 0)
    filtering = filter_arguments(config)
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


def _separate(config: DictConfig) -> list[str]:
    if config.trainer.v1.trainer_mode != "separate_async":
        return []
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
    return problems


def _select(config: DictConfig, key: str) -> Any:
    return OmegaConf.select(config, key, default=None)
