"""`--dry-run` over verl's real config: what would break a run is named before it starts."""

import re

import pytest

from tools.run.plan import check
from tools.run.settings import find_recipe, load_config
from verl_patches.check import check_config


def test_the_tests_own_config_is_fine(compose):
    assert check_config(compose()) == []


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("actor_rollout_ref.actor.use_dynamic_bsz=false", "use_dynamic_bsz"),
        ("actor_rollout_ref.actor.shuffle=true", "actor.shuffle"),
        ("actor_rollout_ref.actor.ppo_max_token_len_per_gpu=300", "ppo_max_token_len_per_gpu"),
        ("actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=300", "log_prob_max_token_len_per_gpu"),
        ("transfer_queue.backend.SimpleStorage.total_storage_size=10", "total_storage_size"),
        ("actor_rollout_ref.rollout.n=1", "rollout.n"),
        ("actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean", "loss_agg_mode"),
        ("algorithm.adv_estimator=gae", "adv_estimator"),
        ("trainer.v1.sampler.sync_refill_failed_groups=true", "sync_refill_failed_groups"),
        ("trainer.v1.trainer_mode=fast", "trainer_mode"),
        ("reward.reward_model.enable=true", "reward_model.enable"),
        ("trainer.critic_warmup=1", "critic_warmup"),
        ("agent.max_context_tokens=9999", "max_context_tokens"),
        ("memory.likelihood=best", "memory.likelihood"),
        ("memory.row_credit=half", "memory.row_credit"),
        ("memory.max_failed_share=2", "max_failed_share"),
        ("task.reward=best", "task.reward"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=3", "ppo_mini_batch_size"),
        ("~memory.weight", "memory.weight is not set"),
        ("agent.max_context_tokens=null", "agent.max_context_tokens is null"),
        ("memory.threshold_p=null", "memory.threshold_p is null"),
        ("agent.context=nonsense", "agent.context: context mode 'nonsense' is unknown"),
        ("actor_rollout_ref.rollout.enable_chunked_prefill=true", "rollout.enable_chunked_prefill is true"),
        ("agent.name=nonsense", "agent.name is 'nonsense'"),
        ("seed=???", "seed is not set"),
    ],
)
def test_each_problem_names_its_key(compose, override, named):
    problems = check_config(compose(override))
    assert len(problems) >= 1
    assert any(named in problem for problem in problems)


def test_separate_async_needs_devices_and_an_engine_of_its_own(compose):
    wanted = [
        "trainer.v1.trainer_mode=separate_async",
        "trainer.v1.separate_async.parameter_sync_step=2",
        "actor_rollout_ref.rollout.nnodes=1",
        "actor_rollout_ref.rollout.n_gpus_per_node=1",
        "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl",
    ]
    assert check_config(compose(*wanted)) == []
    assert "naive" in " ".join(check_config(compose(*wanted[:-1])))
    assert "parameter_sync_step" in " ".join(check_config(compose(wanted[0], *wanted[2:])))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("agent.verifier=nonsense", "agent.verifier is 'nonsense'; known are "),
        ("agent.verifier=nowhere:score", "agent.verifier is 'nowhere:score', which cannot be imported"),
        (
            "agent.verifier=lenient",
            "agent.verifier is 'lenient', which rewards lists of guesses: .* tagged, boxed_exact, boxed_em, or",
        ),
        ("agent.max_context_tokens=100", "agent.max_context_tokens is 100, but the caps allow a request of"),
        ("agent.max_answer_tokens=null", "agent.max_answer_tokens is not set"),
        ("agent.context=window:1", "agent.context is 'window:1'"),
    ],
)
def test_the_dry_run_of_a_reader_looks_into_its_agent(override, said):
    (problem,) = check(load_config(find_recipe("memagent_cpu"), [override]))
    assert re.match(said, problem)


@pytest.mark.parametrize("verifier", ["boxed_exact", "tests.mempo.rewards:told"])
def test_a_reward_that_is_there_passes(verifier):
    assert check(load_config(find_recipe("memagent_cpu"), [f"agent.verifier={verifier}"])) == []


def test_agents_that_search_take_no_lenient_reward_either():
    (problem,) = check(load_config(find_recipe("cpu"), ["+agent.verifier=lenient"]))
    assert "agent.verifier is 'lenient'" in problem
