"""verl's replay buffers, which also say which questions a batch was made of, those without a row among them.

Named by `trainer.v1.sampler.custom_sampler`; the trainer sets it, so a config need not.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from verl_patches.records import TRAIN_PARTITION, take_records

SLOWEST_POLL_S, FASTEST_POLL_S = (
    2.0,
    0.05,
)  # the slowest is verl's own; it is a third of a step on a tiny model


class _Remembering(ReplayBuffer):
    """Remembers the questions of the last batch in `selected_uids`."""

    selected_uids: list[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.selected_uids = []
        self._waiting_since = 0.0
        super().__init__(*args, **kwargs)

    def sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[KVBatchMeta, dict[str, Any]]:
        self._waiting_since = time.monotonic()
        return super().sample(global_steps, partition_id, batch_size)

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        """Polls again after a tenth of the time waited so far: each poll lists the whole queue."""
        waited = time.monotonic() - self._waiting_since
        self.poll_interval = min(SLOWEST_POLL_S, max(FASTEST_POLL_S, waited / 10))
        return super()._wait_for_next_poll(partition_id, last_debug_time)

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], dict[str, dict[str, Any]], dict[str, int]]:
        # verl sorts a set by step: among the questions of one step the order would change from run to run.
        ordered = [uid for uid in self.prompt_global_steps[partition_id] if uid in sampleable_keys]
        selection = super()._select_prompt_uids(partition_id, ordered, batch_size)
        self.selected_uids = list(selection[0])
        return selection

    def _clear_groups(self, partition_id: str, uids: set[str]) -> None:
        """As verl's (stale groups), with the records of their sessions."""
        super()._clear_groups(partition_id, uids)
        if partition_id == "train" and uids:
            take_records(TRAIN_PARTITION, uids)


class MempoReplayBuffer(_Remembering, ReplayBuffer):
    """For the sync trainer."""

    def sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[KVBatchMeta, dict[str, Any]]:
        """As verl's, but a batch without any row comes back empty: the trainer then stops with the sessions' causes."""
        try:
            return super().sample(global_steps, partition_id, batch_size)
        except RuntimeError as error:
            if "no materializable trajectories" not in str(error):
                raise
            return KVBatchMeta(partition_id=partition_id, keys=[], tags=[]), {}


class MempoReplayBufferAsync(_Remembering, ReplayBufferAsync):
    """For the async trainers."""

    def _terminal_eviction_reasons(
        self, global_steps: int, partition_id: str
    ) -> tuple[set[str], set[str], set[str], Counter[Any]]:
        """As verl's, but a group with a failed session is trained on what is left, as in sync mode, not replaced."""
        stale, filtered, _failed, counts = super()._terminal_eviction_reasons(global_steps, partition_id)
        return stale, filtered, set(), counts
