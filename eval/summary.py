"""From samples to the numbers of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

from eval.bootstrap import mean_intervals
from eval.errors import EvalError
from eval.sample import Sample, is_right
from mempo.verifiers import BOXED

# name in the summary: how to read it off a sample. None: the sample has no such number and stays out of its mean
# (no gold paragraphs, or a sample of an earlier version).
NUMBERS: dict[str, Callable[[Sample], float | None]] = {
    "em": lambda sample: sample["em"],
    "f1": lambda sample: sample["f1"],
    "sub_em": lambda sample: sample["sub_em"],
    "em_sum": lambda sample: sample["em_sum"],
    "f1_sum": lambda sample: sample.get("f1_sum"),
    "sub_em_sum": lambda sample: sample.get("sub_em_sum"),
    "reward": lambda sample: sample["reward"],
    "right_share": lambda sample: float(is_right(sample)),
    "format_share": lambda sample: float(sample["format_ok"]),
    "answered_share": lambda sample: float(sample["prediction"] is not None),
    "turns": lambda sample: sample["turns"],
    "searches": lambda sample: sample["searches"],
    "prompt_tokens": lambda sample: _tokens(sample)["prompt"],
    "response_tokens": lambda sample: _tokens(sample)["response"],
    "total_tokens": lambda sample: _tokens(sample)["prompt"] + _tokens(sample)["response"],
    "peak_tokens": lambda sample: _tokens(sample)["peak"],
    "dependency": lambda sample: _tokens(sample).get("dependency"),
    "api_prompt_tokens": lambda sample: (sample.get("usage") or {}).get("prompt"),  # as the API counts
    "api_completion_tokens": lambda sample: (sample.get("usage") or {}).get("completion"),
    "support_by_search": lambda sample: (sample.get("support") or {}).get("search"),
    "support_by_memory": lambda sample: (sample.get("support") or {}).get("memory"),
    "seconds": lambda sample: sample["seconds"],
}
# Those between 0 and 1.
SHARES = (
    *("em", "f1", "sub_em", "reward", "right_share", "format_share", "answered_share"),
    *("support_by_search", "support_by_memory", *BOXED),
)
# Called `estimated_…` in a summary where the endpoint told no token ids (over chat messages).
ESTIMATES = ("prompt_tokens", "response_tokens", "total_tokens", "peak_tokens", "dependency")
GROUPS = {
    "by_hops": "hops",
    "by_type": "type",
    "by_objectives": "objectives",
    "by_source": "data_source",
}


def number(sample: Sample, name: str) -> float | None:
    """One of `NUMBERS`, or the share of right answers by one of `mempo.verifiers.BOXED`; None where a sample has none."""
    if name in BOXED:
        verified: dict[str, float] = sample.get("verified", {})
        return verified.get(name)
    return NUMBERS[name](sample)


def estimated_name(name: str, samples: Sequence[Sample]) -> str:
    """How a number is called where tokens were counted by us, not told by the endpoint."""
    return f"estimated_{name}" if name in ESTIMATES and _estimated(samples) else name


def summarize(samples: Sequence[Sample]) -> dict[str, Any]:
    """Means over all samples, failed ones included as wrong (with 0 turns, 0 tokens and no support found).

    Returns:
        `n`; for every name of `NUMBERS` the mean, and `<name>_ci`: its 95 % interval (low, high) by percentile bootstrap
        over questions; both None if no sample has the number. `em_se`, `f1_se`: standard errors. `support_n`: samples
        with gold paragraphs. Counts: `stop`, `format_reasons`, `failures` (cause -> samples), `failed`,
        `failed_searches`. `GROUPS`: for each value of a field of the sample, `em` and `n`.

        Where answers are boxed, the share of right answers by each verifier of `mempo.verifiers.BOXED`, under its name,
        and `missing_box`: finished questions without one.

        `em`, `f1` and `sub_em` are means of the per-question mean over objectives, `…_sum` of its sum.

    Raises:
        EvalError: without samples.
    """
    if not samples:
        raise EvalError("there are no samples to summarise")
    columns = {
        estimated_name(name, samples): [read(sample) for sample in samples] for name, read in NUMBERS.items()
    }
    if any("verified" in sample for sample in samples):  # of an earlier version, failed samples lack it
        columns |= {name: [sample.get("verified", {}).get(name, 0.0) for sample in samples] for name in BOXED}
    boxed = "boxed_em" in columns
    failures = Counter(sample["failure"]["cause"] for sample in samples if sample["failure"])
    return {
        "n": len(samples),
        **{name: _mean(values) for name, values in columns.items()},
        **{
            f"{name}_se": _standard_error([float(sample[name]) for sample in samples])
            for name in ("em", "f1")
        },
        **{
            f"{name}_ci": list(bounds) if bounds else None for name, bounds in mean_intervals(columns).items()
        },
        **({"missing_box": _missing_boxes(samples)} if boxed else {}),
        "support_n": sum(value is not None for value in columns["support_by_search"]),
        "stop": _counts(sample["stop"] for sample in samples if sample["stop"]),
        "format_reasons": _counts(sample["format_reason"] for sample in samples if sample["format_reason"]),
        "failed": sum(failures.values()),
        "failures": _counts(failures.elements()),
        "failed_searches": sum(sample["failed_searches"] for sample in samples),
        **{name: _groups(samples, key) for name, key in GROUPS.items()},
    }


def _estimated(samples: Sequence[Sample]) -> bool:
    return any("estimated_tokens" in sample for sample in samples)


def _missing_boxes(samples: Sequence[Sample]) -> int:
    """Not read off the format: `lenient` finds none wrong."""
    return sum(sample["prediction"] is None and not sample["failure"] for sample in samples)


def _tokens(sample: Sample) -> dict[str, Any]:
    tokens: dict[str, Any] = sample["estimated_tokens"] if "estimated_tokens" in sample else sample["tokens"]
    return tokens


def _mean(values: Sequence[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _standard_error(values: Sequence[float]) -> float:
    count = len(values)
    mean = sum(values) / count
    variance = sum((value - mean) ** 2 for value in values) / (count - 1) if count > 1 else 0.0
    return sqrt(variance / count)


def _counts(names: Any) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _groups(samples: Sequence[Sample], field: str) -> dict[str, dict[str, float]]:
    groups: dict[Any, list[float]] = defaultdict(list)
    for sample in samples:
        groups[sample[field]].append(float(sample["em"]))
    return {
        str(key): {"em": sum(groups[key]) / len(groups[key]), "n": len(groups[key])} for key in sorted(groups)
    }
