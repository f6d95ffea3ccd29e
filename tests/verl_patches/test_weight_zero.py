"""`memory.weight: 0` (published MemAgent): memories are scored and their scores logged, and the policy does not see them."""

import json

import pytest
import torch
from verl.trainer.ppo.v1 import trainer_base

from mempo.credit import row_share
from tests.verl_patches.reading_step import OVERRIDES, StoredRows, rolled, trainer_of
from verl_patches.run_log import RunLog


@pytest.fixture
async def records(tokens):
    return await rolled(tokens)


@pytest.fixture
def step(records, tokens, compose, monkeypatch):
    """Advantages of a whole step: `step("memory.weight=0")` → the trainer after it, and row key → [L]."""

    def done(*overrides, plain=False):
        queue = StoredRows(records)
        queue.install(monkeypatch)
        queue.add_log_probs()
        trainer = trainer_of(compose(*OVERRIDES, *overrides), records, queue, tokens)
        compute = trainer_base.PPOTrainer._compute_advantage if plain else type(trainer)._compute_advantage
        compute(trainer, queue.batch(), {})
        return trainer, {key: row["advantages"] for key, row in queue.rows.items()}

    return done


@pytest.mark.parametrize("credit", ["share", "split"])
def test_the_advantages_are_those_without_a_memory_level_advantage(step, credit):
    trainer, advantages = step("memory.weight=0", f"memory.row_credit={credit}")
    earned = trainer.report.credits[0].advantages
    assert any(value for turns in earned.values() for value in turns.values()), "there was something to add"
    _, verls = step(plain=True)
    assert any(values.any() for values in verls.values())
    for key, values in advantages.items():
        share = row_share(credit, 3 if key.startswith("a") else 2)
        assert torch.equal(values, verls[key] * share), key


def test_with_a_weight_they_differ_on_memories_alone(step):
    _, without = step("memory.weight=0")
    trainer, advantages = step("memory.weight=1")
    changed = {key for key, values in advantages.items() if not torch.equal(values, without[key])}
    spans = {
        f"{record.session}_{turn}": span
        for record in trainer.report.records
        for turn, row in enumerate(record.trajectory.rows())
        for _, *span in row.memory_spans
    }
    assert changed
    assert changed <= spans.keys(), "final turns have no memory"
    for key in changed:
        start, end = spans[key]
        outside = torch.ones(len(advantages[key]), dtype=torch.bool)
        outside[start:end] = False
        assert torch.equal(advantages[key][outside], without[key][outside])


def test_the_memories_are_scored_and_the_scores_logged(step, tokens, tmp_path):
    trainer, _ = step("memory.weight=0")
    weighted, _ = step("memory.weight=1")
    assert trainer.scorer.calls == 1
    report = trainer.report
    metrics = report.metrics()
    assert metrics["memory/scored"] == 6, "two memories of each rollout of a, one of each of b"
    assert metrics["memory/p_memory"] != metrics["memory/p_reference"]
    assert metrics["memory/nonzero_share"] > 0
    named = {name for name in metrics if name.startswith("memory/")}
    assert {name: metrics[name] for name in named - {"memory/advantage_mass_share"}} == {
        name: value
        for name, value in weighted.report.metrics().items()
        if name.startswith("memory/") and name != "memory/advantage_mass_share"
    }

    log = RunLog(tmp_path)
    log.trajectories(1, report.records, report.scores, report.advantages, tokens)
    log.metrics(1, metrics)
    lines = [
        json.loads(line) for line in (tmp_path / "trajectories" / "step_1.jsonl").read_text().splitlines()
    ]
    scored = [score for line in lines for score in line["memory"] if score["status"] == "scored"]
    assert len(scored) == 6
    assert all(score["reward"] == score["p_memory"] - score["p_reference"] for score in scored)
    assert (
        json.loads((tmp_path / "metrics.jsonl").read_text())["memory/p_memory"] == metrics["memory/p_memory"]
    )
