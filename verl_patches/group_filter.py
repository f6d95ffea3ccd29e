"""verl's `algorithm.filter_groups` (dynamic sampling, DAPO section 3.2) as arguments for our replay buffers.

verl hands these to its own buffers only; a custom one gets `trainer.v1.sampler.sampler_kwargs`.
"""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig


def filter_arguments(config: DictConfig) -> dict[str, Any]:
    """The arguments under verl's names, and `max_num_gen_batches`, which verl's V1 trainer ignores; {} if the filter is off."""
    settings = config.algorithm.get("filter_groups")
    if not settings or not settings.enable:
        return {}
    return {
        "filter_groups_metric": str(settings.metric),
        "train_batch_size": int(config.data.train_batch_size),
        "gen_batch_size": 1,  # as verl's loader then has: one question is replaced at a time
        "max_inflight_gen_batches": int(settings.max_inflight_gen_batches),
        "max_num_gen_batches": int(settings.max_num_gen_batches),
    }
