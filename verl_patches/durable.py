"""A trainer whose finished steps survive a kill: what it leaves on disk, in an order in which nothing is lost.

A step's trajectories come first, then its checkpoint with the step's metrics beside it, then its line in metrics.jsonl.
A resumed run takes back the lines past its checkpoint, and adds the checkpoint's own if a kill came before it was logged.
"""

from __future__ import annotations

import shutil
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import trainer_base

from mempo.tokens import ChatTokens
from verl_patches.disk import writing
from verl_patches.failures import RunFailed
from verl_patches.metrics import StepReport
from verl_patches.resume import STEP, flaw, repair_tracker
from verl_patches.run_log import RunLog, spread


class DurableTrainer(trainer_base.PPOTrainer):
    """Mixin in front of one of verl's V1 trainers."""

    report: StepReport
    tokens: ChatTokens

    def _load_checkpoint(self) -> None:
        self._resumed_from: Path | None = None
        trainer, queue = self.config.trainer, self.trainer_mode != "sync"
        contents = self.config.actor_rollout_ref.actor.checkpoint.load_contents
        if trainer.resume_mode == "auto":
            point = repair_tracker(Path(trainer.default_local_dir), contents, queue=queue)
            for note in point.notes:
                print(note, flush=True)
            if point.step is not None:
                self._resumed_from = self._folder_of(point.step)
        elif trainer.resume_mode == "resume_path":
            self._resumed_from = Path(str(trainer.resume_from_path))
            if problem := flaw(self._resumed_from, contents, queue=queue):
                raise RunFailed(
                    f"trainer.resume_from_path: {self._resumed_from} cannot be resumed from: {problem}"
                )
        super()._load_checkpoint()

    def on_init_end(self) -> None:
        super().on_init_end()
        self.run_log = RunLog(self.config.run.path, self.global_steps, self._resumed_from)

    def on_step_begin(self) -> None:
        super().on_step_begin()
        self._step_began = time.perf_counter()

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        batch = super().step(metrics, timing_raw)
        report = self.report
        samples = spread(report.records, int(self.config.run.sample_trajectories))
        self.run_log.trajectories(self.global_steps, samples, report.scores, report.advantages, self.tokens)
        self._stepped = batch, metrics
        return batch

    def _save_checkpoint(self) -> None:
        """verl's checkpoint in an empty folder, so that no file of an earlier try stands for one of this.

        The metrics that are kept in it hold the timings of what is over by then.
        """
        batch, known = self._stepped
        metrics, timing = dict(known), {**self.timing_raw, "step": time.perf_counter() - self._step_began}
        epoch = (self.global_steps - 1) // self.steps_per_epoch
        # verl adds to it whenever metrics are computed; this step is added when they are logged.
        accumulator: Any = self._rollout_moe_lb_metrics_accumulator  # type: ignore[has-type]
        self._rollout_moe_lb_metrics_accumulator = deepcopy(accumulator)
        try:
            self._describe(batch, metrics, timing, self.global_steps, epoch)
        finally:
            self._rollout_moe_lb_metrics_accumulator = accumulator
        folder = self._folder_of(self.global_steps)
        with writing(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.run_log.keep(folder, self.global_steps, metrics)
            super()._save_checkpoint()

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        self._describe(batch, metrics, *args, **kwargs)
        self.run_log.metrics(self.global_steps, metrics)

    def _describe(self, batch: KVBatchMeta, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """Adds all metrics of a step to `metrics`; takes what verl's `_compute_metrics` takes."""
        super()._compute_metrics(batch, metrics, *args, **kwargs)

    def _folder_of(self, step: int) -> Path:
        return Path(self.config.trainer.default_local_dir) / f"{STEP}{step}"
