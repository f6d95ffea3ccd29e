"""The entry: what it fills in, and its patience with Ray."""

import os

import pytest

from verl_patches.main import START_ATTEMPTS, _with_patience
from verl_patches.wiring import PLUGIN, wire, wire_environment, wire_ray

SLOW = Exception("The current node timed out during startup. This could happen because")


def test_what_follows_from_our_keys_is_filled_in(compose):
    config = wire(compose("seed=7"))
    rollout = config.actor_rollout_ref.rollout
    assert rollout.agent.default_agent_loop == "mempo"
    assert rollout.agent.agent_loop_manager_class == "verl_patches.agent_loop.MempoAgentLoopManager"
    assert rollout.calculate_log_probs is True
    assert config.data.seed == rollout.seed == config.actor_rollout_ref.actor.data_loader_seed == 7
    assert config.reward.num_workers == 0


def test_every_process_loads_the_plugin(compose, monkeypatch):
    # The function under test writes both; monkeypatch takes back only what it has seen.
    for name in ("TENSORBOARD_DIR", "VERL_PLATFORM"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", "another")
    monkeypatch.delenv("TENSORBOARD_DIR")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = wire(compose())
    wire_environment(config)
    wire_ray(config)
    variables = config.ray_kwargs.ray_init.runtime_env.env_vars
    assert f"another,{PLUGIN}" == variables.VERL_USE_EXTERNAL_MODULES
    assert variables.TENSORBOARD_DIR.endswith("run/tensorboard")
    assert config.ray_kwargs.ray_init.num_gpus == 1


def test_a_running_cluster_is_joined_as_it_is(compose, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    config = compose("+ray_kwargs.ray_init.runtime_env.env_vars.TOKEN=secret")
    wire_ray(config)
    assert not {"address", "num_cpus", "num_gpus", "include_dashboard"} & set(config.ray_kwargs.ray_init)
    assert config.ray_kwargs.ray_init.runtime_env.env_vars.TOKEN == "secret"


def test_without_ray_address_the_cluster_is_our_own(compose, monkeypatch):
    """ray.init() would join whatever another user's `ray start --head` left its address of."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = compose()
    wire_ray(config)
    assert config.ray_kwargs.ray_init.address == "local"


def test_ray_finds_a_python_in_a_path_with_a_blank(compose, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = compose()
    wire_ray(config)
    assert config.ray_kwargs.ray_init.runtime_env.get("py_executable") is None
    monkeypatch.setattr("sys.executable", "/a b/python")
    wire_ray(config)
    assert config.ray_kwargs.ray_init.runtime_env.py_executable == "'/a b/python'"


def attempts(errors):
    made = []

    def start():
        made.append(1)
        if len(made) <= len(errors):
            raise errors[len(made) - 1]

    return start, made


def test_a_slow_machine_gets_another_try():
    start, made = attempts([SLOW])
    _with_patience(start)
    assert len(made) == 2


@pytest.mark.parametrize(("errors", "tries"), [([SLOW] * 9, START_ATTEMPTS), ([ValueError("no")], 1)])
def test_what_does_not_pass_is_raised(errors, tries):
    start, made = attempts(errors)
    with pytest.raises(type(errors[0])):
        _with_patience(start)
    assert len(made) == tries
