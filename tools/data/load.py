"""From data set files to checked questions, with an account of everything that was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.data.question import MalformedRecord, Question, Unusable
from tools.data.records import read_records

Parser = Callable[[Mapping[str, Any]], Question]


@dataclass
class Account:
    """What became of the records: `records` = questions + malformed + unusable."""

    records: int = 0
    malformed: Counter[str] = field(default_factory=Counter)  # by field
    unusable: Counter[str] = field(default_factory=Counter)  # by reason
    problems: list[str] = field(default_factory=list)  # one line for each malformed record


def load_questions(
    paths: Iterable[Path], parse: Parser, account: Account, seen: dict[str, str]
) -> list[Question]:
    """Questions of the files, in order.

    Args:
        account: updated with every record.
        seen: place by question id; updated. A second record with an id is malformed, also across files and splits, so
            that no question is both trained on and validated with.
    """
    questions = []
    for path in paths:
        for place, record in read_records(path):
            account.records += 1
            where = f"{path.name}: {place}"
            try:
                if isinstance(record, MalformedRecord):
                    raise record
                question = parse(record)
                if question.id in seen:
                    raise MalformedRecord("id", f"{question.id!r} was used in {seen[question.id]}")
            except MalformedRecord as error:
                account.malformed[error.field] += 1
                account.problems.append(f"{where}: {error}")
                continue
            except Unusable as error:
                account.unusable[error.reason] += 1
                continue
            seen[question.id] = where
            questions.append(question)
    return questions
