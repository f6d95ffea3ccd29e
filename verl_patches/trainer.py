"""verl's three trainers with mempo's credit: whole trajectories, memory advantages, exact row counts, named failures.

The subclasses take the place of verl's own under the same names: verl compares the mode's name in code, so that a new
name would behave as async.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from omegaconf import DictConfig, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.dataset.rl_dataset import collate_fn
from verl.utils.debug import marked_timer
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict

from verl_patches.advantage import RowAdvantage, advantage_mass, final_advantages, lone_sessions
from verl_patches.agents import chat_tokens
from verl_patches.batch import StepBatch, check_equal_turns, match_rows
from verl_patches.deadline import with_deadline
from verl_patches.durable import DurableTrainer
from verl_patches.failures import Failure, RunFailed, check_failures, describe, failure_metrics
from verl_patches.group_filter import filter_arguments
from verl_patches.loader import SeededLoader, check_enough
from verl_patches.memory_credit import credit_memories
from verl_patches.memory_worker import data_parallel_size
from verl_patches.metrics import StepReport
from verl_patches.minibatch import PADDING, plan_mini_batches
from verl_patches.records import TRAIN_PARTITION, VALIDATION_PARTITION, take_records
from verl_patches.scoring import build_scorer
from verl_patches.settings import MemoryOptions
from verl_patches.tracking import install_separate_tracking
from verl_patches.worker import ROWS_METRIC, extended

_SYNC_ADVICE = (
    "The rollout engine did not take the new weights; the first exception in its log (vLLMHttpServer, EngineCore) is the "
    "cause. If it was only slow, raise run.weight_sync_deadline_s."
)


class MempoTrainer(DurableTrainer):
    """Mixin in front of one of verl's V1 trainers."""

    def __init__(self, config: DictConfig) -> None:
        sync = config.trainer.v1.trainer_mode == "sync"
        with open_dict(config):
            config.trainer.v1.sampler.custom_sampler = {
                "path": "pkg://verl_patches.replay",
                "name": "MempoReplayBuffer" if sync else "MempoReplayBufferAsync",
            }
            config.trainer.v1.sampler.sampler_kwargs = filter_arguments(config)
        super().__init__(config)
        self.options = MemoryOptions.from_config(config)
        self.report = StepReport()
        self.step_batch = StepBatch()

    # ------------------------------------------------------------------ set-up

    def _init_tokenizer(self) -> None:
        super()._init_tokenizer()
        self.tokens = chat_tokens(self.config, self.tokenizer)
        model = omega_conf_to_dataclass(self.config.actor_rollout_ref.model)
        self._positions = int(getattr(model.hf_config, "max_position_embeddings", 1 << 30))

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        data = self.config.data
        try:
            check_enough(len(self.train_dataset), int(data.train_batch_size))
            self.train_dataloader = SeededLoader(
                self.train_dataset,
                int(data.get("gen_batch_size") or data.train_batch_size),
                collate_fn,
                seed=int(self.config.seed),
                shuffle=bool(data.shuffle),
            )
        except ValueError as error:
            raise RunFailed(str(error)) from error

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        seconds, workers = float(self.config.run.weight_sync_deadline_s), self.role_worker_mapping
        for role in {Role.Actor, Role.ActorRollout, Role.ActorRolloutRef} & set(workers):
            workers[role] = extended(workers[role], seconds)

    def _setup(self) -> None:
        super()._setup()
        budget = int(self.config.actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu)
        self.scorer, self._tree_refused = build_scorer(
            str(self.config.memory.scorer), self.actor_rollout_wg, budget
        )
        self.memory_settings = self.options.scoring(
            max_positions=min(self._positions, self.scorer.longest_probe)
        )
        # The workers give up first, with the engine's error; this one is for what they do not see.
        seconds = float(self.config.run.weight_sync_deadline_s) + 30.0
        for name in ("checkpoint_manager", "standalone_checkpoint_manager"):
            manager = getattr(self, name, None)
            if manager is not None:
                manager.update_weights = with_deadline(
                    manager.update_weights, seconds, "weight sync", _SYNC_ADVICE
                )

    # ------------------------------------------------------------------ one step

    def on_step_begin(self) -> None:
        super().on_step_begin()
        self.report = StepReport()

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], **kwargs: Any) -> KVBatchMeta:
        """Reads the sessions' records, counts rows and failures, and lays the rows out in whole mini-batches."""
        uids, rollouts = self.replay_buffer.selected_uids, int(self.config.actor_rollout_ref.rollout.n)
        records = take_records(TRAIN_PARTITION, uids)
        step_batch, failures = match_rows(uids, rollouts, records, batch)
        self.step_batch = step_batch
        dropped = self.replay_buffer.take_dropped()
        unused, unused_failures = match_rows(dropped.uids, rollouts, dropped.records, dropped)
        self.report.failures += failures + unused_failures
        self.report.sessions += step_batch.sessions + unused.sessions
        self.report.dropped += dropped.reasons
        self.report.dropped_records += unused.records
        share = float(self.config.memory.max_failed_share)
        if not step_batch.records:
            check_failures(failures, step_batch.sessions, share, self.global_steps)
        check_failures(
            failures + unused_failures, step_batch.sessions + unused.sessions, share, self.global_steps
        )
        if self.options.equal_turns:
            check_equal_turns(step_batch.records)
        self.report.records += step_batch.records
        self.report.rows.produced += sum(record.rows for record in step_batch.records + unused.records)
        self.report.rows.dropped += len(dropped.keys)
        self.report.rows.transferred += len(batch)

        rollout, actor = self.config.actor_rollout_ref.rollout, self.config.actor_rollout_ref.actor
        ranks = data_parallel_size(self.actor_rollout_wg)
        tags = dict(zip(batch.keys, batch.tags, strict=True))
        lengths = [[tags[key]["seq_len"] for key in keys] for keys in step_batch.row_keys]
        plan = plan_mini_batches(lengths, int(actor.ppo_mini_batch_size) * int(rollout.n), ranks)
        self.report.mini_batches += plan.mini_batches
        self.report.rows.padding += plan.padding
        self._mini_batches = plan.mini_batches

        # With a multiple above the batch's length verl pads to exactly that many rows.
        batch = upsample_batch_to_divisible_size(batch, len(plan.layout), self.tokenizer.eos_token_id)
        position = {key: index for index, key in enumerate(batch.keys)}
        real = [position[key] for keys in step_batch.row_keys for key in keys]
        padding = iter(sorted(set(position.values()) - set(real)))
        batch.reorder([next(padding) if row == PADDING else real[row] for row in plan.layout])
        return batch

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """verl's outcome advantage, then ours on top."""
        batch = super()._compute_advantage(batch, metrics)
        with marked_timer("memory_scoring", self.timing_raw, color="brown"):
            credit = credit_memories(
                self.step_batch.records, self.scorer, self.tokens, self.memory_settings, self.options.credit
            )
        self.report.credits.append(credit)
        keys = [key for session_keys in self.step_batch.row_keys for key in session_keys]
        data = tq.kv_batch_get(
            keys=keys,
            partition_id=batch.partition_id,
            select_fields=["advantages", "response_mask", "extra_fields"],
        )
        rows = [
            RowAdvantage(
                key.rsplit("_", 1)[0], outcome, mask, [tuple(span) for span in extra["mempo"]["spans"]]
            )
            for key, outcome, mask, extra in zip(
                keys,
                data["advantages"].unbind(),
                data["response_mask"].unbind(),
                [getattr(item, "data", item) for item in data["extra_fields"]],
                strict=True,
            )
        ]
        finals = final_advantages(
            rows,
            lone=lone_sessions({record.session: record.group for record in self.step_batch.records}),
            row_credit=self.options.row_credit,
            memory=credit.advantages,
            weight=self.options.weight,
        )
        self.report.mass += advantage_mass(rows, finals)
        for row, final in zip(rows, finals, strict=True):
            self.report.advantages.setdefault(row.session, []).append(final)
        tq.kv_batch_put(
            keys=keys,
            partition_id=batch.partition_id,
            fields=TensorDict(
                {"advantages": torch.nested.as_nested_tensor(finals, layout=torch.jagged)},
                batch_size=len(keys),
            ),
        )
        return batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """verl's update, told how many mini-batches there are instead of how many rows each has."""
        actor = self.config.actor_rollout_ref.actor
        batch.extra_info.update(
            {
                "calculate_entropy": bool(actor.calculate_entropy or actor.entropy_coeff != 0.0),
                "distillation_use_topk": False,
                "distillation_only": False,
                "global_batch_size": len(batch) // self._mini_batches,
                "num_mini_batch": self._mini_batches,
                "epochs": actor.ppo_epochs,
                "seed": actor.data_loader_seed,
                "dataloader_kwargs": {"shuffle": False},
                "temperature": self.config.actor_rollout_ref.rollout.temperature,
            }
        )
        output = self.actor_rollout_wg.update_actor(batch)["metrics"]
        consumed = sum(_flatten(output.pop(ROWS_METRIC)))
        self.report.rows.consumed += round(consumed / int(actor.ppo_epochs))
        norms = [float(norm) for norm in _flatten(output["grad_norm"])]
        if not np.isfinite(norms).all():
            raise RunFailed(
                f"step {self.global_steps}: the gradient is not finite (norms {norms}); verl would skip the update. "
                "Look at trajectory/* and the learning rate of the steps before"
            )
        actor_metrics = rename_dict(output, "actor/")
        actor_metrics["perf/mfu/actor"] = actor_metrics.pop("actor/mfu")
        metrics.update(reduce_metrics(actor_metrics))
        return batch

    def _describe(self, batch: KVBatchMeta, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """Adds verl's metrics of a step, and ours."""
        super()._describe(batch, metrics, *args, **kwargs)
        self.report.rows.check(self.global_steps)
        metrics.update(self.report.metrics() | self.logger.metrics())
        if self._tree_refused is not None:
            metrics[f"memory/tree_refused/{self._tree_refused.code}"] = 1

    # ------------------------------------------------------------------ validation

    def _validate(self) -> dict[str, float]:
        """verl's validation; sessions that failed are counted under `val-failures/`."""
        try:
            metrics = super()._validate()
        except Exception as error:
            failed = self._validation_failures()
            if not failed:
                raise
            raise RunFailed(f"validation: {describe(failed)}") from error
        return {**metrics, **failure_metrics(self._validation_failures(), "val-failures")}

    def _maybe_log_val_generations(self, **columns: Any) -> None:
        """verl's table of validation samples; a logger that cannot take it is given up."""
        self.logger.one_by_one(
            self.config, lambda: super(MempoTrainer, self)._maybe_log_val_generations(**columns)
        )

    def _validation_failures(self) -> list[Failure]:
        records = take_records(VALIDATION_PARTITION).values()
        return [record for record in records if isinstance(record, Failure)]


def _flatten(value: Any) -> list[Any]:
    """Numbers of a metric that verl gathered: a scalar, or lists over ranks, mini-batches and micro-batches."""
    if isinstance(value, list | tuple | np.ndarray):
        return [number for item in value for number in _flatten(item)]
    return [value]


class MempoTrainerSync(MempoTrainer, PPOTrainerSync):
    """Rollout and training take turns on the same devices."""


class MempoTrainerColocateAsync(MempoTrainer, PPOTrainerColocateAsync):
    """As above, but unfinished rollouts go on in the next step."""


class MempoTrainerSeparateAsync(MempoTrainer, PPOTrainerSeparateAsync):
    """Rollout on devices of its own; needs a checkpoint engine other than naive."""


TRAINERS = {
    "sync": MempoTrainerSync,
    "colocate_async": MempoTrainerColocateAsync,
    "separate_async": MempoTrainerSeparateAsync,
}


def install_trainers() -> None:
    """Puts our trainers in the place of verl's, in this process."""
    install_separate_tracking(trainer_base)
    trainer_base.TRAINER_REGISTRY.update(TRAINERS)
