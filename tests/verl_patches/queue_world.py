"""TransferQueue and the rollout workers behind verl's replay buffers, without Ray: what each question earns is scripted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from verl_patches.failures import Failure
from verl_patches.records import TRAIN_PARTITION, SessionRecord, failure_json

ROWS = 2  # of every trajectory


class QueueWorld:
    """Questions that are asked finish at the next poll.

    Args:
        earned: the rewards of each question's sessions in the order asked, None for a failed session; the last entry
            goes for all questions after it.
        record: makes a session's record from its key and reward.
    """

    def __init__(
        self, earned: Sequence[Sequence[float | None]], record: Callable[[str, float], SessionRecord]
    ) -> None:
        self.earned, self.record = earned, record
        self.asked: list[str] = []
        self.tags: dict[str, dict[str, dict[str, Any]]] = {"train": {}, TRAIN_PARTITION: {}}
        self.values: dict[str, dict[str, Any]] = {}

    def install(self, monkeypatch) -> None:
        for name in ("kv_list", "kv_batch_get", "kv_clear"):
            monkeypatch.setattr(f"transfer_queue.{name}", getattr(self, name))
        monkeypatch.setattr("time.sleep", lambda seconds: self.finish())

    def ask(self, count: int) -> int:
        """verl's refill: registers `count` questions as pending."""
        for _ in range(count):
            uid = f"u{len(self.asked)}"
            self.asked.append(uid)
            self.tags["train"][uid] = {"is_prompt": True, "status": "pending", "global_steps": 1}
        return count

    def finish(self) -> None:
        """All pending questions finish; verl calls them finished also where a session failed (ours never raise)."""
        for uid, tag in list(self.tags["train"].items()):
            if tag.get("status") == "pending":
                self._finish(uid)
                tag["status"] = "finished"

    def _finish(self, uid: str) -> None:
        rewards = self.earned[min(self.asked.index(uid), len(self.earned) - 1)]
        for index, reward in enumerate(rewards):
            session = f"{uid}_{index}"
            self.tags[TRAIN_PARTITION][session] = {"session": session}
            if reward is None:
                failure = Failure(session, "timeout", "question q: 30 s")
                self.values[session] = {"record": failure_json(failure)}
                continue
            self.values[session] = {"record": self.record(session, reward).to_json()}
            for row in range(ROWS):
                self.tags["train"][f"{session}_{row}"] = {"status": "success", "seq_len": 10}
                self.values[f"{session}_{row}"] = {
                    "rm_scores": torch.tensor([0.0, reward]),
                    "extra_fields": {"reward_extra_info": {"em": float(reward > 0), "f1": reward}},
                }

    def kv_list(self, partition: str | None = None) -> dict[str, dict[str, dict[str, Any]]]:
        return {
            name: {key: dict(tag) for key, tag in tags.items()}
            for name, tags in self.tags.items()
            if partition in (None, name)
        }

    def kv_batch_get(
        self, keys: list[str], partition_id: str, select_fields: list[str]
    ) -> dict[str, list[Any]]:
        assert set(keys) <= self.tags[partition_id].keys()
        return {field: [self.values[key][field] for key in keys] for field in select_fields}

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        for key in keys:
            self.tags[partition_id].pop(key, None)
