"""verl's replay buffers, which also say which questions a batch was made of, those without a row among them, and which
were dropped on the way.

Named by `trainer.v1.sampler.custom_sampler`; the trainer sets it, so a config need not.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from verl_patches.dropped import EQUAL, STALE, SURPLUS, DroppedGroups
from verl_patches.equal_groups import common_value, trajectory_values
from verl_patches.records import TRAIN_PARTITION, take_records

SLOWEST_POLL_S, FASTEST_POLL_S = (
    2.0,
    0.05,
)  # the slowest is verl's own; it is a third of a step on a tiny model


class _Remembering(ReplayBuffer):
    """Remembers the questions of the last batch in `selected_uids`, and those dropped since until `take_dropped`.

    Args:
        sampler_kwargs: `group_filter.filter_arguments`.
    """

    selected_uids: list[str]

    def __init__(self, *args: Any, sampler_kwargs: Mapping[str, Any], **kwargs: Any) -> None:
        self.selected_uids = []
        self._dropped = DroppedGroups()
        self._reasons: dict[str, str] = {}  # of the questions that are being evicted
        self._waiting_since = 0.0
        self._wanted = 0  # questions, of the call that waits
        arguments = dict(sampler_kwargs)
        # As in DAPO's own loop: so many batches of questions may be generated for one that is complete.
        spare_batches = arguments.pop("max_num_gen_batches", 1) - 1
        super().__init__(*args, sampler_kwargs=sampler_kwargs, **kwargs, **arguments)
        self._equal_allowed = spare_batches * (self.train_batch_size or 0)

    def take_dropped(self) -> DroppedGroups:
        """The questions dropped since the last call."""
        dropped, self._dropped = self._dropped, DroppedGroups()
        return dropped

    def sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[KVBatchMeta, dict[str, Any]]:
        self._waiting_since, self._wanted = time.monotonic(), batch_size
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

    def _dapo_filtered_keys(self, partition_id: str) -> tuple[set[str], Counter[Any]]:
        """As verl's, but the trajectories of a question are compared, not its rows, and compared exactly.

        verl finds the rows of a lone trajectory equal, stops the run at a finished question without rows (what both lack are
        counted failures), and lets equal values pass whose standard deviation is off by rounding.
        """
        metric = self.filter_groups_metric
        if partition_id != "val" and metric is not None:
            known = self._dapo_classification_cache[partition_id]
            new = self.finished_keys[partition_id] - known.keys()
            rows = [key for key in self.partitions[partition_id] if key.split("_")[0] in new]
            values = trajectory_values(partition_id, rows, metric)
            known.update({uid: common_value(values.get(uid, [])) for uid in new})
        return super()._dapo_filtered_keys(partition_id)

    def _evict_terminal_groups(
        self,
        global_steps: int,
        partition_id: str,
        eviction_reasons: tuple[set[str], set[str], set[str], Counter[Any]],
    ) -> tuple[set[str], int, int, dict[str, Any]]:
        """As verl's, which asks without end while all rollouts of a question are equal; here a step gives up.

        Not where it has what it wants by now: how many were equal on the way then does not matter.
        """
        stale, equal, _failed, _counts = eviction_reasons
        self._reasons = dict.fromkeys(equal, EQUAL) | dict.fromkeys(stale, STALE)
        evicted = super()._evict_terminal_groups(global_steps, partition_id, eviction_reasons)
        self._reasons = {}
        ready = len(self._sampleable_terminal_keys(partition_id, eviction_reasons))
        if partition_id == "train" and ready < self._wanted:
            self._dropped.check_equal(self._equal_allowed, str(self.filter_groups_metric), global_steps)
        return evicted

    def _clear_groups(self, partition_id: str, uids: set[str]) -> None:
        """As verl's, with the records of their sessions, which are kept to be counted."""
        keys = [key for key in self.partitions[partition_id] if key.split("_")[0] in uids]
        super()._clear_groups(partition_id, uids)
        if partition_id == "train" and uids:
            reasons = {uid: self._reasons.get(uid, SURPLUS) for uid in uids}
            self._dropped.add(reasons, keys, take_records(TRAIN_PARTITION, uids))


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

    def wait_for_sampleable(
        self, global_steps: int, partition_id: str, target_count: int
    ) -> tuple[set[str], dict[str, Any]]:
        """As verl's, which separate_async also calls by itself, for another number of questions than a batch has."""
        self._wanted = target_count
        return super().wait_for_sampleable(global_steps, partition_id, target_count)

    def _terminal_eviction_reasons(
        self, global_steps: int, partition_id: str
    ) -> tuple[set[str], set[str], set[str], Counter[Any]]:
        """As verl's, but a group with a failed session is trained on what is left, as in sync mode, not replaced."""
        stale, filtered, _failed, counts = super()._terminal_eviction_reasons(global_steps, partition_id)
        return stale, filtered, set(), counts
