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
        ("actor_rollout_ref.actor.ppo_max_token_len_per_gpu=300", "ppo_max_token_len_per_gpu"),
        ("actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=300", "log_prob_max_token_len_per_gpu"),
        ("transfer_queue.backend.SimpleStorage.total_storage_size=10", "total_storage_size"),
        ("agent.max_context_tokens=9999", "max_context_tokens"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=3", "ppo_mini_batch_size"),
        ("actor_rollout_ref.rollout.enable_chunked_prefill=true", "rollout.enable_chunked_prefill is true"),
        ("agent.name=nowhere:build", "agent.name is 'nowhere:build', which cannot be imported"),
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
        ("agent.verifier=nowhere:score", "agent.verifier is 'nowhere:score', which cannot be imported"),
        (
            "agent.verifier=lenient",
            "agent.verifier is 'lenient', which rewards lists of guesses: .* tagged, boxed_exact, boxed_em, or",
        ),
        ("agent.max_context_tokens=100", "agent.max_context_tokens is 100, but the caps allow a request of"),
        ("~agent.max_answer_tokens", "agent.max_answer_tokens is not set"),
        ("agent.prompt=evaluation", "agent.prompt is 'evaluation'; known are published, brief"),
        ("agent.max_response_tokens=256", "agent.max_response_tokens is 256, but the window"),
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
