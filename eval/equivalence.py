"""Whether two runs are the same for practical purposes: any number of theirs, two-sided, within a margin named beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, log
from typing import Any

from eval.bootstrap import mean_intervals
from eval.errors import EvalError
from eval.sample import Sample
from eval.summary import NUMBERS, SHARES, estimated_name, number
from eval.verdict import MIN_CHANGED, Equality
from mempo.verifiers import BOXED

METRICS = (*NUMBERS, *BOXED)
LEVEL = 0.90  # two one-sided tests at 5 % each (Schuirmann 1987): the 90 % interval lies within the margin
MIN_SHARE_QUESTIONS = -log(0.05)  # "rule of three": questions · margin that let no such change pass unseen
MIN_QUESTIONS = (
    30  # of numbers without an upper bound, of which one question may change the mean by any amount
)

RULE = """With `--equivalence MARGIN` the runs are *equivalent* in `--metric` if the 90 % interval of B − A lies within ±MARGIN (two
one-sided tests at 5 % each), *different* if it lies outside and at least 6 questions changed, and otherwise it is *undecided*. Few
questions show nothing: with fewer than 3 / MARGIN questions (for numbers that are no shares: 30), equivalent is undecided."""


@dataclass(frozen=True)
class Equivalence:
    """One number of both runs against a margin.

    Attributes:
        metric: its name in the summaries.
        a, b: means over `questions`, those that have the number in both runs.
        low, high: 90 % interval of the mean difference, B − A, by paired bootstrap over questions.
    """

    metric: str
    margin: float
    a: float
    b: float
    low: float
    high: float
    questions: int
    verdict: Equality

    @property
    def value(self) -> float:
        return self.b - self.a

    @property
    def smallest_margin(self) -> float:
        """The interval lies within every margin above this one."""
        return max(abs(self.low), abs(self.high))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "metric": self.metric,
            "margin": self.margin,
            "a": self.a,
            "b": self.b,
            "difference": self.value,
            "ci90": [self.low, self.high],
            "smallest_margin": self.smallest_margin,
            "questions": self.questions,
            "verdict": self.verdict.value,
        }


def check_equivalence(metric: str, margin: float) -> None:
    """Raises EvalError for an unknown number, or a margin that means nothing for it."""
    if metric not in METRICS:
        raise EvalError(f"--metric is {metric!r}; write one of {', '.join(METRICS)}")
    if not isfinite(margin) or margin <= 0 or (metric in SHARES and margin >= 1):
        most = ", and below 1 for a share such as em" if metric in SHARES else ""
        raise EvalError(
            f"--equivalence is {margin:g}; it is the largest difference of {metric} that would not matter, above 0{most}"
        )


def equivalence(
    a: Mapping[str, Sample], b: Mapping[str, Sample], *, metric: str, margin: float
) -> Equivalence:
    """Compares one number of two runs over the same questions, by `RULE`.

    A question that has no such number in one of the runs (no gold paragraphs, an earlier version) is left out.

    Raises:
        EvalError: see `check_equivalence`; also if no question has the number in both runs.
    """
    check_equivalence(metric, margin)
    values = [(number(a[name], metric), number(b[name], metric)) for name in a]
    pairs = [(float(one), float(other)) for one, other in values if one is not None and other is not None]
    if not pairs:
        raise EvalError(f"--metric {metric}: no question has this number in both runs")
    changes = [other - one for one, other in pairs]
    low, high = mean_intervals({metric: changes}, level=LEVEL)[metric] or (0.0, 0.0)
    enough = len(pairs) * margin >= MIN_SHARE_QUESTIONS if metric in SHARES else len(pairs) >= MIN_QUESTIONS
    changed = sum(map(bool, changes)) >= MIN_CHANGED
    return Equivalence(
        metric=estimated_name(metric, [*a.values(), *b.values()]),
        margin=margin,
        a=sum(one for one, _ in pairs) / len(pairs),
        b=sum(other for _, other in pairs) / len(pairs),
        low=low,
        high=high,
        questions=len(pairs),
        verdict=Equality.of(low, high, margin=margin, enough=enough, changed=changed),
    )
