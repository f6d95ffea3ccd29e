"""Two evaluations of the same questions, compared: refused where anything but the subject differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.bootstrap import mean_intervals
from eval.dotted import ABSENT, value_at
from eval.equivalence import Equivalence, check_equivalence, equivalence
from eval.errors import EvalError
from eval.paired import Paired, compare, mcnemar_two_sided
from eval.sample import Sample, is_right
from eval.sample_log import differences, read_folder
from eval.verdict import Verdict

SUBJECT = ("model",)  # what may differ unless told otherwise


@dataclass(frozen=True)
class Difference:
    """One metric of both runs, the second minus the first, and its 95 % interval by paired bootstrap over questions."""

    a: float
    b: float
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.b - self.a


@dataclass(frozen=True)
class Comparison:
    """Run B against run A.

    Attributes:
        pairs: questions by who answered every objective rightly, with the one-sided exact McNemar p for B > A.
        p_two_sided: exact McNemar p for B ≠ A.
        em, f1: per question the mean over its objectives.
        failed: failed questions of A and B; they count as wrong.
        subject: the settings that differ.
        equivalence: of one number, where it was asked for.
    """

    pairs: Paired
    p_two_sided: float
    em: Difference
    f1: Difference
    failed: tuple[int, int]
    subject: list[str]
    margin: float
    verdict: Verdict
    equivalence: Equivalence | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "n": self.pairs.n,
            "both": self.pairs.both,
            "only_a": self.pairs.only_before,
            "only_b": self.pairs.only_after,
            "neither": self.pairs.neither,
            "p_b_greater": self.pairs.p,
            "p_two_sided": self.p_two_sided,
            **{
                name: {"a": each.a, "b": each.b, "difference": each.value, "ci": [each.low, each.high]}
                for name, each in (("em", self.em), ("f1", self.f1))
            },
            "failed": {"a": self.failed[0], "b": self.failed[1]},
            "subject": self.subject,
            "margin": self.margin,
            "verdict": self.verdict.value,
            "equivalence": self.equivalence.to_json() if self.equivalence else None,
        }


def compare_runs(
    a: Path,
    b: Path,
    *,
    subjects: Sequence[str] = (),
    margin: float = 0.0,
    within: float | None = None,
    metric: str = "em",
) -> Comparison:
    """Compares the evaluations in two folders.

    Args:
        subjects: settings that may differ, e.g. `agent.context`; `agent` covers all below it. Empty: the model.
        margin: see `eval.verdict`.
        within, metric: margin and number of `eval.equivalence`; no margin, no such verdict.

    Raises:
        EvalError: a folder holds no finished evaluation, the runs differ in more than the subject (inputs by hash, task,
            prompt and settings), or a subject or the margin means nothing.
    """
    if not 0 <= margin < 1:
        raise EvalError(f"--margin is {margin:g}; it is a loss of EM, at least 0 and below 1")
    if within is not None:
        check_equivalence(metric, within)
    settings_a, samples_a = _finished(a)
    settings_b, samples_b = _finished(b)
    for name in subjects:
        if value_at(settings_a, name) is ABSENT and value_at(settings_b, name) is ABSENT:
            raise EvalError(f"--subject {name}: neither run has such a setting; see {a / 'settings.json'}")
    odd = differences(settings_a, settings_b, ignore=subjects or SUBJECT)
    if odd:
        raise EvalError(
            f"the runs differ in {'; '.join(odd)}. If that is the subject, name it with --subject"
        )
    subject = differences(settings_a, settings_b)
    return compare_samples(samples_a, samples_b, margin=margin, subject=subject, within=within, metric=metric)


def compare_samples(
    a: Mapping[str, Sample],
    b: Mapping[str, Sample],
    *,
    margin: float,
    subject: Sequence[str] = (),
    within: float | None = None,
    metric: str = "em",
) -> Comparison:
    """Compares samples by question id; see `compare_runs`.

    Raises:
        EvalError: the runs did not answer the same questions, or none; also where every question of a run failed.
    """
    pairs = compare(*({name: is_right(sample) for name, sample in run.items()} for run in (a, b)))
    if not a:
        raise EvalError("there are no samples to compare")
    for name, run in (("A", a), ("B", b)):
        if _failed(run) == len(run):
            raise EvalError(
                f"all {len(run)} questions of {name} failed: there is nothing to compare; evaluate it again"
            )
    changes = {
        metric: [float(b[name][metric]) - float(a[name][metric]) for name in a] for metric in ("em", "f1")
    }
    bounds = mean_intervals(changes)

    def difference(metric: str) -> Difference:
        means = [sum(float(sample[metric]) for sample in run.values()) / len(run) for run in (a, b)]
        low, high = bounds[metric] or (0.0, 0.0)
        return Difference(means[0], means[1], low, high)

    em = difference("em")
    return Comparison(
        pairs=pairs,
        p_two_sided=mcnemar_two_sided(pairs.only_before, pairs.only_after),
        em=em,
        f1=difference("f1"),
        failed=(_failed(a), _failed(b)),
        subject=list(subject),
        margin=margin,
        verdict=Verdict.of(
            em.low, em.high, changed=sum(map(bool, changes["em"])), questions=len(a), margin=margin
        ),
        equivalence=equivalence(a, b, metric=metric, margin=within) if within is not None else None,
    )


def _finished(folder: Path) -> tuple[dict[str, Any], dict[str, Sample]]:
    settings, samples = read_folder(folder)
    asked = settings.get("data", {}).get("questions", len(samples))
    if len(samples) != asked:
        raise EvalError(
            f"{folder} has {len(samples)} of {asked} samples: finish it with the command that began it"
        )
    return settings, samples


def _failed(samples: Mapping[str, Sample]) -> int:
    return sum(sample["failure"] is not None for sample in samples.values())
