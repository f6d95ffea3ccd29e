"""verl's `algorithm.filter_groups` (dynamic sampling, DAPO section 3.2) as arguments for our replay buffers.

verl hands these to its own buffers only; a custom one gets `trainer.v1.sampler.sampler_kwargs`.
"""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig

# What a rollout is compared by: its reward, or one of the scores beside it (`records.outcome_scores`).
FILTER_METRICS = ("reward", "acc", "em", "f1", "sub_em", "format_ok")


def check_filter(config: DictConfig) -> list[str]:
    """Problems of `algorithm.filter_groups` where it is on; verl's default means without end."""
    settings = config.algorithm.get("filter_groups")
    if not settings or not settings.enable or settings.max_num_gen_batches >= 1:
        return []
    return [
        f"algorithm.filter_groups.max_num_gen_batches is {settings.max_num_gen_batches}: a model that gets all of its "
        "questions right, or all wrong, would never end a step; write the most batches to generate for one, e.g. 10"
    ]


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
