"""Demonstrations for questions whose gold paragraphs are known (HotpotQA, 2WikiMultihopQA, MuSiQue)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mempo.answers import normalize
from mempo.prompts import format_passages
from tools.search.corpus import read_corpus
from tools.search.index import Index, bm25_index
from tools.sft.demonstration import Demonstration, Step

TOPK = 3
LONGEST_FACT = 300  # characters of a paragraph's sentence that a memory takes over


def paragraph_demonstrations(data_dir: Path, seed: int) -> Iterator[Demonstration]:
    """One demonstration per training question: a search by the title of each gold paragraph, in order, then the answer.

    Questions without gold paragraphs are passed over. Observations come from the folder's own corpus, as the search
    server ranks it. `seed` has no effect: nothing is drawn.

    Raises:
        ValueError: a line of supporting.jsonl is malformed; names file, line and field.
    """
    del seed
    index = bm25_index(read_corpus(data_dir / "corpus.jsonl"))
    source = data_dir / "supporting.jsonl"
    with source.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                if record["split"] == "train" and record["paragraphs"]:
                    yield demonstrate_paragraphs(record, index)
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{source}, line {number}: {error!r}; write it anew with `mempo data`"
                ) from error


def demonstrate_paragraphs(record: dict[str, Any], index: Index) -> Demonstration:
    """One trajectory; the memory gains the sentence of each paragraph that bears on the question."""
    paragraphs = record["paragraphs"]
    steps: list[Step] = []
    known: list[str] = []
    for position, page in enumerate(paragraphs):
        memory = " ".join([*known, f"Need {page['title']}."])
        hits = index.search(page["title"], TOPK)
        shown = format_passages((hit.document.title, hit.document.text) for hit in hits)
        steps.append(Step(memory, page["title"], shown))
        later = [other["title"] for other in paragraphs[position + 1 :]]
        known.append(
            f"{page['title']}: {telling_sentence(page['text'], [record['answer'], *record['answers'], *later])}"
        )
    return Demonstration(
        str(record["id"]), record["question"], tuple(steps), " ".join(known), record["answer"]
    )


def telling_sentence(text: str, wanted: list[str]) -> str:
    """The first sentence that holds one of the `wanted` texts (answers, titles to come), else the first one."""
    sentences = [part for part in re.split(r"(?<=[.!?])\s+", " ".join(text.split())) if part]
    for target in wanted:
        for sentence in sentences:
            if normalize(target) and f" {normalize(target)} " in f" {normalize(sentence)} ":
                return sentence[:LONGEST_FACT]
    return sentences[0][:LONGEST_FACT] if sentences else ""
