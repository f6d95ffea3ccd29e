"""A real run of the chunk reader: documents of 2, 3 and 4 chunks in one batch, on the stack of every other agent.

The model is untrained and earns nothing; that the reader learns is what `./run_train.sh memagent_cpu` shows.
"""

import pytest

from tests.verl_patches.running import run
from tools.world.reading import ReadingSettings, build_reading_world

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

READER = (
    "agent.name=chunk_memory",
    "agent.context=rewritten",
    "agent.max_turns=5",
    "agent.max_observation_tokens=96",
    "agent.max_response_tokens=24",
    "+agent.max_question_tokens=32",
    "+agent.max_answer_tokens=16",
    "+agent.verifier=boxed_em",
    "memory.reference=previous_memory",
    "data.train_batch_size=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "run.sample_trajectories=1000",
)


def test_rows_of_documents_of_unequal_length_are_exact(tmp_path):
    world = build_reading_world(tmp_path / "world", ReadingSettings(chunk_tokens=96, train=16, validation=2))
    (tmp_path / "model").symlink_to(world / "model")
    (tmp_path / "data").symlink_to(world)
    with run(tmp_path, *READER) as finished:
        assert finished.finish() == 0, finished.log[-6000:]
        lines = finished.metrics
        turns = [
            [len(line["trajectory"]["turns"]) for line in finished.trajectories(step)] for step in (1, 2)
        ]
    assert {count for step in turns for count in step} == {3, 4, 5}, "2 to 4 chunks and the answer"
    for line, counts in zip(lines, turns, strict=True):
        assert len(counts) == line["trajectory/count"] == 32
        assert len(set(counts)) > 1, "lengths are mixed in a step"
        assert line["rows/produced"] == line["rows/transferred"] == line["rows/consumed"] == sum(counts)
        assert line["memory/scored"] == sum(counts) - 32, "each memory, and no final turn"
        assert line["failures/total"] == 0
        assert line["rows/mini_batches"] == 2
