"""Which questions a model gets right, read off the samples of evaluations against any endpoint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tools.data.records import DataError, read_records


@dataclass
class Answers:
    """What evaluations tell of one question.

    Attributes:
        verdicts: one per answer: every objective right by normalised exact match, or not.
        failures: causes of the samples that failed, which are no answers.
    """

    verdicts: list[bool] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Share of right answers; there must be one."""
        return sum(self.verdicts) / len(self.verdicts)


def read_answers(paths: Iterable[Path]) -> dict[str, Answers]:
    """Question id → its answers over all files.

    Raises:
        DataError: a line is no sample of an evaluation.
    """
    answers: dict[str, Answers] = defaultdict(Answers)
    for path in paths:
        for place, record in read_records(path):
            if (
                not isinstance(record, dict)
                or not isinstance(record.get("em_each"), list)
                or not isinstance(record.get("failure") or {}, dict)
                or not isinstance(record.get("id"), str)
                or not (record["em_each"] or record.get("failure"))  # nothing asked is nothing right
            ):
                raise DataError(f"{path}: {place} is no sample; give the samples.jsonl of a `mempo eval`")
            given = answers[record["id"]]
            if record.get("failure"):
                given.failures.append(str(record["failure"].get("cause")))
            else:
                given.verdicts.append(all(record["em_each"]))
    return dict(answers)


def read_right(paths: Iterable[Path]) -> set[str]:
    """Ids of the questions that any of the evaluations answered rightly."""
    return {name for name, answers in read_answers(paths).items() if any(answers.verdicts)}
