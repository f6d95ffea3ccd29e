"""The child that trains: `python -m tools.run.training_process CONFIG` with a resolved config file."""

from __future__ import annotations

import os
import sys

from omegaconf import DictConfig, OmegaConf, open_dict


def with_token(config: DictConfig) -> DictConfig:
    """Hands the search token to Ray's workers on other machines; it stands in no file."""
    name = config.search.token_env
    if name and os.environ.get(name):
        with open_dict(config):
            init = config.ray_kwargs.ray_init
            init.runtime_env = init.get("runtime_env") or {}
            init.runtime_env.env_vars = {**(init.runtime_env.get("env_vars") or {}), name: os.environ[name]}
    return config


def main(path: str) -> None:
    """Trains; ends the process with 1 and the causes on stderr when the run stopped for a reason that we can name."""
    from verl_patches.failures import RunFailed
    from verl_patches.main import end_process, train

    config = OmegaConf.load(path)
    assert isinstance(config, DictConfig)
    try:
        train(with_token(config))
    except RunFailed as failure:
        end_process(failure)


if __name__ == "__main__":
    main(sys.argv[1])
