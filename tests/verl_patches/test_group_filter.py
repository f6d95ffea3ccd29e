"""Dynamic sampling: questions whose rollouts are equal are replaced, and each question and rollout of them is counted."""

from types import SimpleNamespace

import numpy as np
import pytest
from verl.utils.dataset.rl_dataset import collate_fn

from mempo.probe import ANSWER_TAG
from mempo.reward import outcome_reward
from mempo.task import Reference
from tests.verl_patches.queue_world import ROWS, QueueWorld
from verl_patches import trainer as ours
from verl_patches.check import check_config
from verl_patches.equal_groups import trajectory_values
from verl_patches.failures import RunFailed
from verl_patches.group_filter import FILTER_METRICS, filter_arguments
from verl_patches.loader import SeededLoader
from verl_patches.records import TRAIN_PARTITION, SessionRecord, outcome_scores
from verl_patches.wiring import wire

FILTER = ["algorithm.filter_groups.enable=true", "algorithm.filter_groups.max_num_gen_batches=3"]
SMALL = ["data.train_batch_size=2", "actor_rollout_ref.rollout.n=3"]
MODES = ["sync", "colocate_async"]

DIFFERENT, EQUAL, ZERO = (0.0, 1.0, 0.0), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)


@pytest.fixture
async def record(roll):
    trajectory, reference = await roll(), Reference([["rome"]])
    outcome = outcome_reward(trajectory, reference)

    def made(session, reward):
        seconds = {"generate": 1.0, "session": 2.0}
        result = SessionRecord.of(session, trajectory, reference, ANSWER_TAG, outcome, ROWS, seconds)
        result.reward = reward
        return result

    return made


@pytest.fixture
def start(compose, monkeypatch, record):
    """A trainer whose buffer samples from a scripted world in which the step's questions have been asked."""

    def started(earned, mode, *overrides):
        mode = f"trainer.v1.trainer_mode={mode}"
        config = wire(compose(*FILTER, *SMALL, mode, "memory.max_failed_share=0.4", *overrides))
        assert check_config(config) == []
        trainer = ours.TRAINERS[config.trainer.v1.trainer_mode](config)
        world = QueueWorld(earned, record)
        world.install(monkeypatch)
        trainer.replay_buffer.refill_fn = world.ask
        trainer.global_steps = 1
        trainer.tokenizer = SimpleNamespace(eos_token_id=0)
        trainer.actor_rollout_wg = object()
        monkeypatch.setattr(ours, "data_parallel_size", lambda worker_group: 1)
        world.ask(2)
        return trainer, world

    return started


def step(trainer):
    """The part of a step that counts: sampling and the lay-out of mini-batches. The metrics, and the batch."""
    batch, verls = trainer.replay_buffer.sample(global_steps=1, partition_id="train", batch_size=2)
    batch = trainer._balance_batch(batch, {})
    rows = trainer.report.rows
    rows.consumed = rows.transferred
    rows.check(1)
    return verls | trainer.report.metrics(), batch


@pytest.mark.parametrize("mode", MODES)
def test_an_equal_group_is_replaced_and_counted(start, mode):
    trainer, world = start([DIFFERENT, EQUAL, DIFFERENT], mode)
    metrics, batch = step(trainer)
    surplus = len(world.asked) - 3  # verl's sync mode asks two questions for one; what it does not need goes
    assert surplus == {"sync": 1, "colocate_async": 0}[mode]
    assert trainer.replay_buffer.selected_uids == ["u0", "u2"]
    assert {key.split("_")[0] for key in batch.keys} == {"u0", "u2"}
    assert len(batch) == 2 * 3 * ROWS
    assert metrics["training/filter_groups/evicted_samples"] == metrics["dropped/equal"] == 1
    assert metrics.get("dropped/surplus", 0) == surplus
    assert metrics["dropped/groups"] == 1 + surplus
    assert metrics["dropped/rollouts"] == 3 * (1 + surplus)
    assert metrics["dropped/reward_mean"] == pytest.approx((3 + surplus) / (3 + 3 * surplus))
    assert metrics["rows/produced"] == len(world.asked) * 3 * ROWS
    assert metrics["rows/dropped"] == (1 + surplus) * 3 * ROWS
    assert metrics["rows/transferred"] == 2 * 3 * ROWS
    assert metrics["trajectory/count"] == 6
    assert metrics["trajectory/sessions"] == 3 * len(world.asked)
    assert world.tags[TRAIN_PARTITION] == {}, "no record stays behind"


@pytest.mark.parametrize("mode", MODES)
def test_a_failed_session_is_counted_and_no_reward_of_0(start, mode):
    """Two right and one failed: equal. One wrong, one right and one failed: different. One or none left: not filtered."""
    trainer, world = start([(1.0, 1.0, None), (0.0, 1.0, None), DIFFERENT], mode)
    metrics, _ = step(trainer)
    assert trainer.replay_buffer.selected_uids == ["u1", "u2"]
    assert metrics["dropped/equal"] == 1
    assert metrics["failures/timeout"] == metrics["failures/total"] == 2, "that of the dropped question too"
    assert metrics["trajectory/count"] == 5
    finished = metrics["trajectory/count"] + metrics["dropped/rollouts"]
    assert metrics["trajectory/sessions"] == finished + metrics["failures/total"] == 3 * len(world.asked)


@pytest.mark.parametrize("metric", ["reward", "em"])
@pytest.mark.parametrize("mode", MODES)
def test_questions_with_fewer_than_two_trajectories_are_trained_on_what_is_left(start, mode, metric):
    earned = [(1.0, None, None), (None, None, None)]
    limits = ["memory.max_failed_share=0.9", f"algorithm.filter_groups.metric={metric}"]
    trainer, world = start(earned, mode, *limits)
    metrics, batch = step(trainer)
    assert len(world.asked) == 2, "failed sessions are not refilled"
    assert metrics["dropped/groups"] == 0
    assert metrics["failures/total"] == 5
    assert batch.keys == ["u0_0_0", "u0_0_1"]


@pytest.mark.parametrize("mode", MODES)
def test_sessions_that_failed_in_dropped_questions_can_stop_the_run(start, mode):
    trainer, _ = start([(1.0, 1.0, None), DIFFERENT], mode, "memory.max_failed_share=0.05")
    with pytest.raises(RunFailed, match=r"step 1: 1 of \d+ sessions failed .* 1 x timeout"):
        step(trainer)


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_that_failed_whole_stops_the_run_whatever_was_dropped(start, mode):
    failed = (None, None, None)
    trainer, _ = start([EQUAL, failed, failed, failed], mode, "memory.max_failed_share=0.99")
    with pytest.raises(RunFailed, match=r"6 of 6 sessions failed .* 6 x timeout"):
        step(trainer)


@pytest.mark.parametrize("mode", MODES)
def test_a_step_that_finds_only_equal_groups_stops_the_run_with_the_reason(start, mode):
    """Three batches of two may be generated: the fifth equal question is one too many."""
    trainer, world = start([(0.0, 0.0, None), ZERO], mode)
    with pytest.raises(RunFailed) as caught:
        step(trainer)
    said = str(caught.value)
    assert "questions were dropped because all their rollouts have the same reward" in said
    assert "mean reward of what was dropped 0;" in said
    assert "1 x timeout" in said
    assert "max_num_gen_batches" in said
    assert 4 < len(world.asked) <= 8


@pytest.mark.parametrize("mode", MODES)
def test_as_many_equal_groups_as_allowed_are_replaced(start, mode):
    trainer, _ = start([ZERO] * 4 + [DIFFERENT], mode)
    metrics, _ = step(trainer)
    assert metrics["dropped/equal"] == 4
    assert trainer.replay_buffer.take_dropped().uids == [], "each step starts from nothing"


def test_a_score_beside_the_reward_can_be_the_metric(start):
    right = (0.5, 1.0, 0.5)  # different rewards, the same exact match
    trainer, _ = start([right, DIFFERENT], "sync", "algorithm.filter_groups.metric=em")
    metrics, _ = step(trainer)
    assert metrics["dropped/equal"] == 1
    assert "u0" not in trainer.replay_buffer.selected_uids


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [0.6, 1 / 3])
def test_equal_fractions_are_equal(start, mode, value):
    """verl asks whether the standard deviation of the rows' values is 0: for these it is not."""
    rollouts = 5
    overrides = ["algorithm.filter_groups.metric=f1", f"actor_rollout_ref.rollout.n={rollouts}"]
    nearly = (value,) * (rollouts - 1) + (value + 1e-6,)
    trainer, _ = start([(value,) * rollouts, nearly, (*DIFFERENT, 1.0, 0.0)], mode, *overrides)
    assert np.std([value] * rollouts * ROWS) > 0
    metrics, _ = step(trainer)
    assert trainer.replay_buffer.selected_uids == ["u1", "u2"]
    assert metrics["dropped/equal"] == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_full_batch_is_trained_on_however_many_were_equal(start, mode):
    """Five questions finish at once, three of them equal, where two may be: the other two are the batch."""
    trainer, world = start(
        [ZERO, DIFFERENT, EQUAL, DIFFERENT, ZERO], mode, "algorithm.filter_groups.max_num_gen_batches=2"
    )
    world.ask(3)
    metrics, _ = step(trainer)
    assert trainer.replay_buffer.selected_uids == ["u1", "u3"]
    assert metrics["dropped/equal"] == 3


@pytest.mark.parametrize("mode", MODES)
def test_one_question_short_of_a_batch_still_stops_the_run(start, mode):
    trainer, world = start(
        [ZERO, DIFFERENT, EQUAL, ZERO], mode, "algorithm.filter_groups.max_num_gen_batches=2"
    )
    world.ask(2)
    with pytest.raises(RunFailed, match="3 questions were dropped because all their rollouts have the same"):
        step(trainer)


def test_equal_questions_that_finish_after_the_batch_is_full_do_not_stop_it(start):
    """verl's sync mode waits for what it has asked for: here for three that the batch does not need."""
    earned = [DIFFERENT, DIFFERENT, ZERO, ZERO, EQUAL]
    trainer, world = start(earned, "sync", "algorithm.filter_groups.max_num_gen_batches=2")
    world.finish()
    world.ask(3)
    metrics, _ = step(trainer)
    assert trainer.replay_buffer.selected_uids == ["u0", "u1"]
    assert metrics["dropped/equal"] == 3


def test_a_wait_for_more_questions_than_a_batch_has_counts_its_own_number(start):
    """separate_async does so: two others would be a batch, but it waits for three."""
    trainer, world = start(
        [ZERO, DIFFERENT, EQUAL, DIFFERENT, ZERO],
        "colocate_async",
        "algorithm.filter_groups.max_num_gen_batches=2",
    )
    world.ask(3)
    with pytest.raises(RunFailed, match="3 questions were dropped"):
        trainer.replay_buffer.wait_for_sampleable(1, "train", 3)


def test_a_row_without_the_metric_is_named(start):
    _, world = start([DIFFERENT], "sync")
    world.finish()
    rows = [key for key in world.tags["train"] if key.count("_") == 2]
    assert trajectory_values("train", rows, "f1") == {"u0": [*DIFFERENT], "u1": [*DIFFERENT]}
    with pytest.raises(ValueError, match=r"row u0_0_1 has no score 'acc' .*, only em, f1"):
        trajectory_values("train", rows, "acc")


def test_a_lost_row_of_a_dropped_question_is_found(start):
    trainer, world = start([EQUAL, DIFFERENT], "sync")
    world.finish()
    del world.tags["train"]["u0_1_0"]
    with pytest.raises(RunFailed, match=r"trajectory u0_1 .*2 rows were produced"):
        step(trainer)


def test_a_resumed_run_goes_on_after_the_questions_that_refills_drew(start, monkeypatch):
    """A step of 2 asks 4 questions in all; the state saved then must not ask any of them again."""
    rows = [
        {"raw_prompt": [{"role": "user", "content": str(number)}], "index": number} for number in range(9)
    ]

    def loader():
        return SeededLoader(rows, 1, collate_fn, seed=3, shuffle=True)

    trainer, world = start([DIFFERENT, EQUAL, DIFFERENT], "sync")
    drawn = []
    trainer.config.data.gen_batch_size = 1
    trainer.train_dataloader, trainer.train_dataloader_it = loader(), None

    def submit(batch):
        drawn.extend(int(index) for index in batch["index"])
        return world.ask(len(batch))

    monkeypatch.setattr(trainer, "_submit_batch_to_rollout", submit)
    world.asked.clear()
    world.tags["train"].clear()
    trainer.prepare_step()
    trainer.replay_buffer.refill_fn = trainer._add_prompts_to_generate
    step(trainer)
    resumed = loader()
    resumed.load_state_dict(trainer.train_dataloader.state_dict())
    drawn += [int(batch["index"][0]) for batch in resumed]
    assert len(world.asked) == 4
    assert drawn == list(loader().order(0)), "every question of the epoch once"


def test_without_the_filter_equal_groups_are_trained_on(start):
    trainer, world = start([EQUAL, ZERO], "sync", "algorithm.filter_groups.enable=false")
    metrics, batch = step(trainer)
    assert len(world.asked) == 2
    assert metrics["dropped/groups"] == metrics["rows/dropped"] == 0
    assert len(batch) == 2 * 3 * ROWS


def test_a_step_without_an_end_is_named(compose):
    endless = "algorithm.filter_groups.max_num_gen_batches=0"
    assert check_config(compose(*FILTER)) == []
    assert "filter_groups.max_num_gen_batches is 0" in " ".join(check_config(compose(*FILTER, endless)))
    assert check_config(compose(endless)) == [], "only where the filter is on"


async def test_the_metrics_are_the_scores_that_every_rollout_has(roll):
    scores = outcome_scores(outcome_reward(await roll(), Reference([["rome"]])))
    assert set(FILTER_METRICS) == {"reward", *scores}


def test_replacements_need_room_in_the_queue(compose):
    size = f"transfer_queue.backend.SimpleStorage.total_storage_size={4 * (1 + 4 * (1 + 2 * 3))}"
    assert check_config(compose(size)) == []
    assert "total_storage_size" in " ".join(check_config(compose(size, *FILTER)))


def test_the_filter_is_off_unless_asked_for(compose):
    assert filter_arguments(compose()) == {}
