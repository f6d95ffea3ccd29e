"""From samples to the numbers of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import Any

from eval.errors import EvalError
from eval.sample import Sample, is_right

NUMBERS = {
    # name in the summary: how to read it off a sample
    "reward": lambda sample: sample["reward"],
    "em_sum": lambda sample: sample["em_sum"],
    "sub_em": lambda sample: sample["sub_em"],
    "right_share": lambda sample: float(is_right(sample)),
    "format_share": lambda sample: float(sample["format_ok"]),
    "answered_share": lambda sample: float(sample["prediction"] is not None),
    "turns": lambda sample: sample["turns"],
    "searches": lambda sample: sample["searches"],
    "prompt_tokens": lambda sample: sample["tokens"]["prompt"],
    "response_tokens": lambda sample: sample["tokens"]["response"],
    "total_tokens": lambda sample: sample["tokens"]["prompt"] + sample["tokens"]["response"],
    "peak_tokens": lambda sample: sample["tokens"]["peak"],
    "seconds": lambda sample: sample["seconds"],
}


def summarize(samples: Sequence[Sample]) -> dict[str, Any]:
    """Means over all samples, failed ones included as wrong (with 0 turns and 0 tokens).

    Returns:
        `em`, `f1` (means of the per-question mean over objectives) with standard errors `em_se`, `f1_se`, and `n`;
        the means of `NUMBERS`; counts: `stop`, `format_reasons`, `failures` (cause -> samples), `failed`,
        `failed_searches`; `by_hops` and `by_type` with `em` and `n`.

    Raises:
        EvalError: without samples.
    """
    if not samples:
        raise EvalError("there are no samples to summarise")
    failures = Counter(sample["failure"]["cause"] for sample in samples if sample["failure"])
    return {
        "n": len(samples),
        **_mean_and_error("em", [sample["em"] for sample in samples]),
        **_mean_and_error("f1", [sample["f1"] for sample in samples]),
        **{name: _mean([float(read(sample)) for sample in samples]) for name, read in NUMBERS.items()},
        "stop": _counts(sample["stop"] for sample in samples if sample["stop"]),
        "format_reasons": _counts(sample["format_reason"] for sample in samples if sample["format_reason"]),
        "failed": sum(failures.values()),
        "failures": _counts(failures.elements()),
        "failed_searches": sum(sample["failed_searches"] for sample in samples),
        "by_hops": _groups(samples, "hops"),
        "by_type": _groups(samples, "type"),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _mean_and_error(name: str, values: Sequence[float]) -> dict[str, float]:
    mean = _mean(values)
    count = len(values)
    variance = sum((value - mean) ** 2 for value in values) / (count - 1) if count > 1 else 0.0
    return {name: mean, f"{name}_se": sqrt(variance / count)}


def _counts(names: Any) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _groups(samples: Sequence[Sample], key: str) -> dict[str, dict[str, float]]:
    names = sorted({str(sample[key]) for sample in samples})
    groups = {name: [sample["em"] for sample in samples if str(sample[key]) == name] for name in names}
    return {name: {"em": _mean(values), "n": len(values)} for name, values in groups.items()}
