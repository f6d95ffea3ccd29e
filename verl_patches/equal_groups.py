"""Which questions have rollouts that are all equal in the filter's metric, and so teach GRPO nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import transfer_queue as tq


def trajectory_values(partition_id: str, row_keys: Iterable[str], metric: str) -> dict[str, list[float]]:
    """The filter's metric of every trajectory, by question, from one row of each: all its rows hold the same.

    Raises:
        ValueError: a row has no such score, naming it.
    """
    keys = list({key.rsplit("_", 1)[0]: key for key in row_keys}.values())
    values: dict[str, list[float]] = defaultdict(list)
    if not keys:
        return values
    field = "rm_scores" if metric == "reward" else "extra_fields"
    found = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=[field])[field]
    for key, value in zip(keys, list(found), strict=True):
        number = float(value.sum()) if metric == "reward" else _score(key, value, metric)
        values[key.split("_")[0]].append(number)
    return values


def common_value(values: Sequence[float]) -> float | None:
    """What all of at least two values are; None if there are fewer or any two differ."""
    # Their standard deviation would not do: that of three times 0.4 is not 0.
    return values[0] if len(values) > 1 and min(values) == max(values) else None


def _score(key: str, extra_fields: Any, metric: str) -> float:
    scores = getattr(extra_fields, "data", extra_fields).get("reward_extra_info", {})
    if metric not in scores:
        raise ValueError(
            f"row {key} has no score {metric!r} (algorithm.filter_groups.metric), only {', '.join(sorted(scores)) or 'none'}"
        )
    return float(scores[metric])
