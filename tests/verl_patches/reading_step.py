"""A step's rows of the chunk reader as verl holds them, without Ray or a server: the real converter, padding and advantages.

Two questions, two rollouts each: documents of two chunks and of one, so 3, 3, 2 and 2 rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import NonTensorStack, TensorDict
from transfer_queue import KVBatchMeta

from mempo.agents.factory import build_agent
from mempo.probe import Probe
from mempo.reward import outcome_reward
from mempo.task import Reference, Task
from mempo.tokens import ChatTokens
from tests.mempo.support import ScriptedModel
from verl_patches import trainer as ours
from verl_patches.agent_loop import verl_rows
from verl_patches.batch import match_rows
from verl_patches.metrics import StepReport
from verl_patches.records import SessionRecord
from verl_patches.wiring import wire

AGENT: dict[str, Any] = {
    "name": "chunk_memory",
    "prompt": "brief",
    "context": "rewritten",
    "max_turns": 4,
    "max_response_tokens": 24,
    "max_observation_tokens": 12,
    "max_context_tokens": 640,
    "max_question_tokens": 24,
    "max_answer_tokens": 24,
    "verifier": "boxed_em",
}
SAID = {
    "a_0": ["rome is a city", "king of rome", "\\boxed{rome}"],
    "a_1": ["paris", "", "\\boxed{paris}"],
    "b_0": ["king year born", "\\boxed{rome}"],
    "b_1": ["town and river", "I do not know."],
}
OVERRIDES = [
    "memory.reference=previous_memory",
    "actor_rollout_ref.rollout.n=2",
    "actor_rollout_ref.actor.use_kl_loss=true",
    "actor_rollout_ref.actor.kl_loss_type=low_var_kl",
    "actor_rollout_ref.actor.kl_loss_coef=0.1",
]


async def rolled(tokens: ChatTokens) -> dict[str, SessionRecord]:
    """Session → its record."""
    agent = build_agent(AGENT, tokens, None)
    chunk = tokens.decode(tokens.encode_inert("the town of rome is in the river king " * 8)[:24])
    half = tokens.decode(tokens.encode_inert(chunk)[:12])
    records = {}
    for session, said in SAID.items():
        task = Task(session[0], "king of town?", document=chunk if session[0] == "a" else half)
        trajectory = await agent.run(task, ScriptedModel(tokens, said))
        reference = Reference([["rome"]])
        outcome = outcome_reward(trajectory, reference, verifier=agent.verifier)
        seconds = {"generate": 1.0, "session": 2.0}
        rows = len(trajectory.turns)
        records[session] = SessionRecord.of(
            session, trajectory, reference, agent.probe_format, outcome, rows, seconds
        )
    return records


class StoredRows:
    """One TransferQueue partition: key → field → value."""

    def __init__(self, records: Mapping[str, SessionRecord]) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.tags: dict[str, dict[str, Any]] = {}
        for session, record in records.items():
            for index, output in enumerate(verl_rows(record.trajectory, record, (0, 0))):
                prompts, responses = torch.tensor(output.prompt_ids), torch.tensor(output.response_ids)
                rewards = torch.zeros(len(responses))
                rewards[-1] = record.reward
                mask = torch.tensor(output.response_mask)
                key = f"{session}_{index}"
                self.rows[key] = {
                    "uid": record.group,
                    "prompts": prompts,
                    "responses": responses,
                    "input_ids": torch.cat([prompts, responses]),
                    "response_mask": mask,
                    "loss_mask": mask,
                    "rollout_log_probs": torch.tensor(output.response_logprobs),
                    "rm_scores": rewards,
                    "extra_fields": output.extra_fields,
                }
                self.tags[key] = {"seq_len": len(prompts) + len(responses)}

    def install(self, monkeypatch: Any) -> None:
        monkeypatch.setattr("transfer_queue.kv_batch_get", self.get)
        monkeypatch.setattr("transfer_queue.kv_batch_put", self.put)

    def add_log_probs(self) -> None:
        """Those of the old policy and of the reference, for padding rows too, as verl computes them: drawn, by key."""
        for place, key in enumerate(sorted(self.rows)):
            row, random = self.rows[key], torch.Generator().manual_seed(place)
            for name in ("old_log_probs", "ref_log_prob"):
                row[name] = -4 + 0.3 * torch.randn(len(row["responses"]), generator=random)

    def batch(self) -> KVBatchMeta:
        keys = list(self.rows)
        return KVBatchMeta(keys, [self.tags[key] for key in keys], partition_id="train")

    def get(
        self, keys: Sequence[str], partition_id: str, select_fields: Sequence[str] | None = None
    ) -> TensorDict:
        names = [
            name for name in self.rows[keys[0]] if select_fields is None or name in select_fields
        ]  # as TransferQueue: what no row has is left out
        columns = {}
        for name in names:
            values = [self.rows[key][name] for key in keys]
            tensors = isinstance(values[0], torch.Tensor)
            columns[name] = (
                torch.nested.as_nested_tensor(values, layout=torch.jagged)
                if tensors
                else NonTensorStack(*values)
            )
        return TensorDict(columns, batch_size=len(keys))

    def put(
        self, keys: Sequence[str], partition_id: str, fields: TensorDict, tags: Any = None
    ) -> KVBatchMeta:
        for place, key in enumerate(keys):
            row = self.rows.setdefault(key, {})
            for name in fields.keys():  # noqa: SIM118 (a TensorDict iterates over its rows)
                value = fields[name]
                row[name] = list(value.unbind() if isinstance(value, torch.Tensor) else value)[place]
            self.tags.setdefault(key, {}).update(tags[place] if tags else {})
        return KVBatchMeta(list(keys), [self.tags[key] for key in keys], partition_id=partition_id)


class CountingScorer:
    """Gives the n-th probe the log-prob −n / 10 on every answer token."""

    def __init__(self) -> None:
        self.calls = 0

    def answer_logprobs(self, probes: Sequence[Sequence[Probe]]) -> list[list[torch.Tensor]]:
        self.calls += 1
        numbers = iter(range(1000))
        return [[torch.full((sum(p.answer_mask),), -next(numbers) / 10) for p in row] for row in probes]


def trainer_of(
    config: Any, records: Mapping[str, SessionRecord], queue: StoredRows, tokens: ChatTokens
) -> Any:
    """Our trainer as it stands once the step's records are read, with a scorer that counts."""
    trainer = ours.MempoTrainerSync(wire(config))
    trainer.tokens, trainer.scorer = tokens, CountingScorer()
    trainer.memory_settings = trainer.options.scoring(max_positions=2048)
    trainer.timing_raw = {}
    trainer.step_batch, failures = match_rows(["a", "b"], 2, dict(records), queue.batch())
    assert not failures
    trainer.report = StepReport(sessions=4, records=trainer.step_batch.records)
    return trainer
