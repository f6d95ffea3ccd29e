"""verl's replay buffers, which also say which questions a batch was made of, those without a row among them.

Named by `trainer.v1.sampler.custom_sampler`; the trainer sets it, so a config need not.
"""

from __future__ import annotations

from typing import Any

from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

POLL_SECONDS = 0.2  # verl's 2 s are a third of a step on a tiny model


class _Remembering(ReplayBuffer):
    """Remembers the questions of the last batch in `selected_uids`."""

    selected_uids: list[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.selected_uids = []
        super().__init__(*args, poll_interval=POLL_SECONDS, **kwargs)

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], dict[str, dict[str, Any]], dict[str, int]]:
        # verl sorts a set by step: among the questions of one step the order would change from run to run.
        ordered = [uid for uid in self.prompt_global_steps[partition_id] if uid in sampleable_keys]
        selection = super()._select_prompt_uids(partition_id, ordered, batch_size)
        self.selected_uids = list(selection[0])
        return selection


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
