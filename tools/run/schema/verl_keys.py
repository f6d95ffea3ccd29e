"""The rules of verl's keys: those that our recipes set or our checks read.

A key that has one right value here says why. verl's other keys are its own affair: it reads them as its documentation says.
"""

from __future__ import annotations

from tools.run.schema.rule import Rule, exactly, flag, left_alone, listed, number, one_of, text, whole

# Names that verl, vLLM and transformers compare with in their code, and keep in no list that could be read.
PRECISIONS = ("fp32", "float32", "bf16", "bfloat16", "fp16", "float16")
KL_LOSSES = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")
ROLLOUT_DTYPES = ("auto", "float32", "float", "bfloat16", "float16", "half")
LOAD_FORMATS = ("auto", "dummy", "safetensors")
ATTENTIONS = ("sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention")
SAVED = ("model", "optimizer", "extra", "hf_model")
DYNAMIC = "the number of rows changes from step to step"


def verl_rules() -> dict[str, Rule]:
    """Key → rule."""
    groups = {
        "algorithm": _algorithm(),
        "data": _data(),
        "actor_rollout_ref": {"hybrid_engine": exactly(True, "memories are scored on the actor's workers")},
        "actor_rollout_ref.model": _model(),
        "actor_rollout_ref.actor": _actor(),
        "actor_rollout_ref.ref": _ref(),
        "actor_rollout_ref.rollout": _rollout(),
        "reward": {
            "num_workers": whole(0),
            "reward_model.enable": exactly(False, "rewards are computed from the trajectory"),
        },
        "distillation": {"enabled": exactly(False, "mempo does not distil")},
        "transfer_queue.backend": {
            "storage_backend": one_of(("SimpleStorage", "MooncakeStore")),
            "SimpleStorage.total_storage_size": whole().or_null(),
            "SimpleStorage.num_data_storage_units": whole(),
        },
        "trainer": _trainer(),
        "ray_kwargs.ray_init": {
            "num_cpus": whole().or_null(),
            "num_gpus": whole(0).or_null().optional(),
            "include_dashboard": flag().or_null().optional(),
        },
    }
    return {f"{group}.{key}": rule for group, keys in groups.items() for key, rule in keys.items()}


def _algorithm() -> dict[str, Rule]:
    from verl_patches.group_filter import FILTER_METRICS

    return {
        "adv_estimator": exactly("grpo", "mempo's credit builds on grpo"),
        "norm_adv_by_std_in_grpo": flag(),
        "use_kl_in_reward": flag(),
        "kl_ctrl.kl_coef": number(low=0),
        "filter_groups.enable": flag(),
        "filter_groups.metric": one_of(FILTER_METRICS),
        "filter_groups.max_num_gen_batches": whole(0),
        "filter_groups.max_inflight_gen_batches": whole(),
    }


def _data() -> dict[str, Rule]:
    filled = left_alone("for files of your own write task=parquet task.data_dir=DIR")
    return {
        "train_files": filled,
        "val_files": filled,
        "train_batch_size": whole(),
        "gen_batch_size": whole().or_null(),
        "train_max_samples": whole(-1),
        "max_prompt_length": whole(),
        "max_response_length": whole(),
        "shuffle": flag(),
        "dataloader_num_workers": whole(0),
        "filter_overlong_prompts": flag(),
        "truncation": one_of(("error", "left", "right", "middle")),
        "apply_chat_template_kwargs.enable_thinking": flag().optional(),
    }


def _model() -> dict[str, Rule]:
    return {
        "path": text("a folder or a name on the Hugging Face hub").or_null(),
        "use_remove_padding": flag(),
        "enable_gradient_checkpointing": flag(),
        "override_config.attn_implementation": one_of(ATTENTIONS).or_null().optional(),
    }


def _actor() -> dict[str, Rule]:
    return {
        "strategy": one_of(("fsdp", "fsdp2")),
        "ppo_mini_batch_size": whole(),
        "ppo_max_token_len_per_gpu": whole(),
        "ppo_epochs": whole(),
        "use_dynamic_bsz": exactly(True, DYNAMIC),
        "shuffle": exactly(False, "it would tear trajectories out of their mini-batch"),
        "loss_agg_mode": exactly("token-mean", "other means would count padding rows"),
        "use_torch_compile": flag(),
        "clip_ratio": number(above=0),
        "clip_ratio_low": number(above=0),
        "clip_ratio_high": number(above=0),
        "entropy_coeff": number(low=0),
        "use_kl_loss": flag(),
        "kl_loss_coef": number(low=0),
        "kl_loss_type": one_of([*KL_LOSSES, *(f"{name}+" for name in KL_LOSSES)]),
        "optim.lr": number(above=0, high=1),
        "optim.lr_warmup_steps": whole(-1).or_null(),
        "optim.lr_warmup_steps_ratio": number(low=0, high=1),
        "optim.weight_decay": number(low=0),
        "ulysses_sequence_parallel_size": whole().optional(),
        "checkpoint.save_contents": listed(one_of(SAVED), holding=("hf_model", "the evaluation loads it")),
        "checkpoint.load_contents": listed(one_of(SAVED)),
        "fsdp_config.param_offload": flag(),
        "fsdp_config.optimizer_offload": flag(),
        "fsdp_config.model_dtype": one_of(PRECISIONS),
        "fsdp_config.mixed_precision.param_dtype": one_of(PRECISIONS).optional(),
    }


def _ref() -> dict[str, Rule]:
    return {
        "log_prob_use_dynamic_bsz": flag(),
        "log_prob_max_token_len_per_gpu": whole(),
        "fsdp_config.param_offload": flag(),
        "fsdp_config.model_dtype": one_of(PRECISIONS),
        "fsdp_config.mixed_precision.param_dtype": one_of(PRECISIONS).optional(),
    }


def _rollout() -> dict[str, Rule]:
    return {
        "name": exactly("vllm", "seeds, stop ids and log-probs of every request are those of vLLM"),
        "n": whole(2, why="GRPO compares rollouts of one question"),
        "temperature": number(above=0),
        "top_p": number(above=0, high=1),
        "top_k": whole(-1),
        "dtype": one_of(ROLLOUT_DTYPES),
        "tensor_model_parallel_size": whole(),
        "gpu_memory_utilization": number(above=0, high=1),
        "max_num_seqs": whole(),
        "max_model_len": whole().or_null(),
        "prompt_length": whole(),
        "response_length": whole(),
        "enforce_eager": flag(),
        "enable_chunked_prefill": flag(),
        "enable_sleep_mode": flag().optional(),
        "free_cache_engine": flag(),
        "load_format": one_of(LOAD_FORMATS),
        "log_prob_use_dynamic_bsz": exactly(True, DYNAMIC),
        "log_prob_max_token_len_per_gpu": whole(),
        "agent.num_workers": whole(),
        "checkpoint_engine.backend": text("the name of an engine, e.g. naive or nccl"),
        "checkpoint_engine.update_weights_bucket_megabytes": whole(),
        "nnodes": whole(0),
        "n_gpus_per_node": whole(0),
    }


def _trainer() -> dict[str, Rule]:
    from verl_patches.names import TRAINER_MODES, loggers

    return {
        "device": one_of(("cpu", "cuda")),
        "nnodes": whole(),
        "n_gpus_per_node": whole(),
        "balance_batch": flag(),
        "total_training_steps": whole(),
        "total_epochs": whole(),
        "save_freq": whole(why="without checkpoints there is nothing to resume or evaluate"),
        "test_freq": whole(-1),
        "val_before_train": flag(),
        "max_actor_ckpt_to_keep": whole().or_null(),
        "resume_mode": one_of(("auto", "disable", "resume_path")),
        "resume_from_path": text("a folder global_step_N").or_null(),
        "logger": listed(one_of(loggers()), single=True),
        "critic_warmup": exactly(0, "there is no critic, and those steps would train nothing"),
        "use_v1": exactly(True, "mempo extends verl's V1 trainer"),
        "v1.trainer_mode": one_of(TRAINER_MODES),
        "v1.colocate_async.num_warmup_batches": number(low=0),
        "v1.separate_async.num_warmup_batches": number(low=0),
        "v1.separate_async.parameter_sync_step": whole(),
        "v1.sampler.max_off_policy_threshold": whole().or_null(),
        "v1.sampler.max_off_policy_strategy": one_of(("drop", "wait")),
        "v1.sampler.sync_refill_failed_groups": exactly(False, "failed sessions are never refilled here"),
    }
