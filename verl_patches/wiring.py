"""The verl keys that follow from ours: set in one place, so that a recipe cannot forget one."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from pathlib import Path

from omegaconf import DictConfig, open_dict

AGENT_LOOP = "mempo"
PLUGIN = "verl_patches.plugin"
RUN_NAME = "MEMPO_RUN"  # a random name that all processes of one start share, see `weight_sockets`
MANAGER = "verl_patches.agent_loop.MempoAgentLoopManager"

# What Ray's workers need from the environment; on a cluster they do not inherit it from this process.
FORWARDED = (
    "VERL_USE_EXTERNAL_MODULES",
    "VERL_PLATFORM",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "OMP_NUM_THREADS",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_CPU_OMP_THREADS_BIND",
    "TORCHDYNAMO_DISABLE",
    "TENSORBOARD_DIR",
)


def wire(config: DictConfig) -> DictConfig:
    """Fills in the keys of verl that have one right value for our agents, and the seeds. Changes `config`."""
    with open_dict(config):
        rollout = config.actor_rollout_ref.rollout
        rollout.agent.default_agent_loop = AGENT_LOOP
        rollout.agent.agent_loop_manager_class = MANAGER
        rollout.calculate_log_probs = True
        rollout.seed = config.seed
        config.data.seed = config.seed
        config.actor_rollout_ref.actor.data_loader_seed = config.seed
        config.reward.num_workers = 0  # the agent loop computes rewards; a worker would only cost its start
        config.run.path = str(Path(config.run.path).absolute())
    return config


def wire_environment(config: DictConfig) -> None:
    """Loads our plug-in in every process of the run and sends TensorBoard's events to the run folder."""
    modules = [name for name in os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",") if name]
    if PLUGIN not in modules:
        os.environ["VERL_USE_EXTERNAL_MODULES"] = ",".join([*modules, PLUGIN])
    os.environ.setdefault("TENSORBOARD_DIR", str(Path(config.run.path) / "tensorboard"))
    if str(config.trainer.device) == "cpu":
        os.environ.setdefault("VERL_PLATFORM", "cpu")


def wire_ray(config: DictConfig) -> None:
    """Completes `ray_kwargs.ray_init`: our environment for every worker, and which cluster.

    That of `RAY_ADDRESS`, without resources of our own; else one of our own. Ray by itself would join whatever was started
    on this machine last, by anybody.
    """
    with open_dict(config):
        init = config.ray_kwargs.ray_init
        init.runtime_env = init.get("runtime_env") or {}
        forwarded = {name: os.environ[name] for name in FORWARDED if name in os.environ}
        forwarded[RUN_NAME] = secrets.token_hex(8)
        init.runtime_env.env_vars = {**forwarded, **(init.runtime_env.get("env_vars") or {})}
        if os.environ.get("RAY_ADDRESS"):
            for name in ("num_cpus", "num_gpus", "include_dashboard", "_temp_dir"):
                init.pop(name, None)  # Ray refuses them when it joins a cluster
        else:
            init.address = init.get("address") or "local"
            python = shlex.quote(sys.executable)
            if python != sys.executable:  # Ray puts it into a shell's command line as it is
                init.runtime_env.py_executable = python
