"""The verl-style parquet of DeepResearcher (Zheng et al. 2025): seven data sets in one file, aliases in one string."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.data.question import MalformedRecord, Question, Unusable, items, string, usable_answers
from tools.data.records import DataError, read_records

SEPARATOR = "<|answer_split|>"
SOURCES = {  # data_source of the file, in lower case: the name that this project uses
    "nq": "nq",
    "tq": "triviaqa",
    "hotpotqa": "hotpotqa",
    "2wiki": "2wikimultihopqa",
    "musique": "musique",
    "popqa": "popqa",
    "bamboogle": "bamboogle",
}


def parse_deepresearcher(record: Mapping[str, Any], sources: Collection[str] = ()) -> Question:
    """One row: the question is the prompt's one message, the answers are `reward_model.ground_truth`.

    MuSiQue's ids tell hops and type (`4hop1`); elsewhere hops are unknown (0).

    Args:
        sources: names of ours; rows of other data sets are unusable (`other_source`). Empty takes all.

    Raises:
        MalformedRecord: a field is missing or has the wrong shape.
        Unusable: the row belongs to none of `sources`.
    """
    source = read_source(record)
    if sources and source not in sources:
        raise Unusable("other_source")
    messages = items(record, "prompt")
    if len(messages) != 1 or not isinstance(messages[0], Mapping):
        raise MalformedRecord("prompt", "a list of one message is expected")
    name = string(_struct(record, "extra_info"), "index")
    texts = string(_struct(record, "reward_model"), "ground_truth").split(SEPARATOR)
    kind = re.match(r"musique_((\d)hop\d?)_", name)
    return Question(
        id=name,
        question=string(messages[0], "content"),
        answers=usable_answers(texts, "ground_truth"),
        paragraphs=[],
        gold=[],
        hops=int(kind[2]) if kind else 0,
        type=kind[1] if kind else "",
        source=source,
    )


def read_source(record: Mapping[str, Any]) -> str:
    """Our name of the data set that a row comes from. Raises MalformedRecord."""
    given = string(record, "data_source")
    if given.lower() not in SOURCES:
        raise MalformedRecord("data_source", f"{given!r} is unknown; known are {', '.join(SOURCES)}")
    return SOURCES[given.lower()]


def list_sources(paths: Sequence[Path]) -> list[str]:
    """The data sets in the files, each once, in order of first appearance; rows that name none are left to `convert`.

    Raises:
        DataError: a file cannot be read, or no row in any of them is of a known data set.
    """
    found: dict[str, None] = {}
    others: Counter[str] = Counter()
    for path in paths:
        for _, record in read_records(path):
            if not isinstance(record, MalformedRecord):
                try:
                    found[read_source(record)] = None
                except MalformedRecord:
                    others[repr(record.get("data_source"))] += 1
            else:
                others["no object"] += 1
    if not found:
        told = ", ".join(f"{name} ({count})" for name, count in others.most_common(10)) or "no row at all"
        raise DataError(
            f"{', '.join(path.name for path in paths)}: no row is of a known data set; data_source is {told}, known are "
            f"{', '.join(SOURCES)}. `mempo data jsonl` reads questions and answers of any other"
        )
    return list(found)


def _struct(record: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = record.get(field)
    if not isinstance(value, Mapping):
        raise MalformedRecord(field, "is missing or not a struct")
    return value
