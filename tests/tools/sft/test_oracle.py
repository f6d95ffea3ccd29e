"""Demonstrations from gold paragraphs, and the files they are written to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tools.search.document import Document
from tools.search.index import bm25_index
from tools.sft.oracle import OracleOutput, write_oracle
from tools.sft.paragraph_oracle import demonstrate_paragraphs, telling_sentence
from tools.sft.rows import read_sft_rows

PAGES = [
    ("Big Stone Gap (film)", "Big Stone Gap is a 2014 film. It was directed by Adriana Trigiani."),
    ("Adriana Trigiani", "Adriana Trigiani is an author. She is based in Greenwich Village, New York City."),
    ("Gap Inc.", "Gap is a company."),
]
RECORD: dict[str, Any] = {
    "id": "q1",
    "split": "train",
    "question": "Where is the director of Big Stone Gap based?",
    "answer": "Greenwich Village, New York City",
    "questions": ["Where is the director of Big Stone Gap based?"],
    "answers": ["Greenwich Village, New York City"],
    "paragraphs": [{"title": title, "text": text, "objective": 0} for title, text in PAGES[:2]],
}


def _folder(path: Path, lines: list[str]) -> Path:
    documents = [json.dumps({"id": str(i), "title": t, "text": x}) for i, (t, x) in enumerate(PAGES)]
    (path / "corpus.jsonl").write_text("\n".join(documents))
    (path / "supporting.jsonl").write_text("\n".join(lines))
    return path


def test_each_gold_paragraph_is_searched_by_title_and_remembered() -> None:
    index = bm25_index([Document(str(i), title, text) for i, (title, text) in enumerate(PAGES)])
    demo = demonstrate_paragraphs(RECORD, index)
    assert [step.query for step in demo.steps] == ["Big Stone Gap (film)", "Adriana Trigiani"]
    assert all(step.observation.startswith(f"(1) {step.query}\n") for step in demo.steps)
    assert "directed by Adriana Trigiani" in demo.steps[1].memory
    assert "Greenwich Village" in demo.memory
    assert demo.answer == RECORD["answer"]


def test_the_telling_sentence_is_the_one_with_the_answer_or_else_the_first() -> None:
    text = "One is here. Two is there."
    assert telling_sentence(text, ["two"]) == "Two is there."
    assert telling_sentence(text, ["three"]) == "One is here."
    assert telling_sentence("", ["three"]) == ""


def test_rows_are_written_for_training_questions_only(tmp_path: Path) -> None:
    folder = _folder(tmp_path, [json.dumps(RECORD), json.dumps(RECORD | {"id": "q2", "split": "validation"})])
    settings = OracleOutput(contexts={"window:1": 1, "history": 1}, prompt="evaluation")
    assert write_oracle(folder, tmp_path / "sft.parquet", settings, 0) == 4
    rows = read_sft_rows(tmp_path / "sft.parquet")
    assert [row["id"] for row in rows] == ["q1/0", "q1/1", "q1/2", "q1"]
    assert [len(row["messages"]) for row in rows] == [3, 5, 5, 7]


def test_rows_of_ours_are_replaced_and_other_files_are_not(tmp_path: Path) -> None:
    folder, out = _folder(tmp_path, [json.dumps(RECORD)]), tmp_path / "sft.parquet"
    for _ in range(2):
        write_oracle(folder, out, OracleOutput(), 0)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []
    rows = pq.read_table(out)
    pq.write_table(rows.slice(0, 1), out)  # somebody's choice of rows, with the metadata of ours
    for _ in range(2):
        before = out.read_bytes()
        with pytest.raises(ValueError, match=r"sft\.parquet is there already.*move it away"):
            write_oracle(folder, out, OracleOutput(), 0)
        assert out.read_bytes() == before
        out.write_bytes(b"mine")


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    folder = _folder(tmp_path, [json.dumps(RECORD), "{"])
    with pytest.raises(ValueError, match="line 2"):
        write_oracle(folder, tmp_path / "sft.parquet", OracleOutput(), 0)


def test_a_folder_without_facts_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"supporting\.jsonl"):
        write_oracle(tmp_path, tmp_path / "sft.parquet", OracleOutput(), 0)
