"""2WikiMultihopQA (Ho et al. 2020): two or four gold paragraphs, aliases of answers in a file of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mempo.outside_text import load_json
from tools.data.layout import find_gold, read_gold_titles, read_paragraphs
from tools.data.question import Question, aliases, question_id, string
from tools.data.records import DataError, read_text


def parse_twowiki(record: Mapping[str, Any], by_answer_id: Mapping[str, list[str]] | None = None) -> Question:
    """One record. Its `supporting_facts` follow the reasoning, so they give the hop order.

    Args:
        by_answer_id: aliases by the Wikidata id of an answer, from `read_aliases`.

    Raises:
        MalformedRecord: a field is missing or has the wrong shape.
    """
    text = string(record, "question")
    name = question_id(record, text)
    answers = aliases(record, (by_answer_id or {}).get(str(record.get("answer_id")), []))
    paragraphs = [paragraph for paragraph, _ in read_paragraphs(record)]
    gold = find_gold(paragraphs, read_gold_titles(record))
    kind = string(record, "type") if "type" in record else ""
    return Question(name, text, answers, paragraphs, gold, len(gold), kind)


def read_aliases(path: str | Path) -> dict[str, list[str]]:
    """The data set's `id_aliases.json`: one `{"Q_id", "aliases", "demonyms"}` per line; both lists count as answers.

    Raises:
        DataError: the file cannot be read, or a line has another shape, by number.
    """
    table: dict[str, list[str]] = {}
    for number, line in enumerate(read_text(Path(path)).split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = load_json(line)
            names = [*record["aliases"], *record.get("demonyms", [])]
            table[record["Q_id"]] = [name for name in names if isinstance(name, str)]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f'{path}: line {number} is not {{"Q_id": …, "aliases": […]}}: {error}') from error
    return table
