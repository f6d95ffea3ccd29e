"""Which questions a model gets right, read off the samples of evaluations (`mempo eval run`) against any endpoint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tools.data.records import DataError, read_records


def read_verdicts(paths: Iterable[Path]) -> dict[str, list[bool]]:
    """Question id → one verdict per file that has it: every objective right by normalised exact match, or not.

    Raises:
        DataError: a line is no sample of an evaluation.
    """
    verdicts: dict[str, list[bool]] = defaultdict(list)
    for path in paths:
        for place, record in read_records(path):
            if (
                not isinstance(record, dict)
                or not isinstance(record.get("em_each"), list)
                or "id" not in record
            ):
                raise DataError(f"{path}: {place} is no sample; give the samples.jsonl of a `mempo eval run`")
            verdicts[str(record["id"])].append(all(record["em_each"]))
    return dict(verdicts)


def read_right(paths: Iterable[Path]) -> set[str]:
    """Ids of the questions that any of the evaluations answered rightly."""
    return {name for name, verdicts in read_verdicts(paths).items() if any(verdicts)}
