"""Long documents: every gold paragraph exactly once, at recorded places; the same seed gives the same bytes."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.mempo.support import qwen_folder
from tools.data.cli import app
from tools.data.hotpotqa import parse_hotpotqa
from tools.data.long_context import Distractors, LongContextSettings, hide, make_long_context
from tools.data.manifest import changed_outputs
from tools.data.question import Paragraph
from tools.data.records import DataError, read_records
from tools.data.schema import read_rows

HOTPOT = Path(__file__).parents[4] / "shared" / "data" / "migres" / "hotpot.json"
needs_hotpot = pytest.mark.skipif(not HOTPOT.is_file(), reason=f"{HOTPOT} is not there")


def record(number: int) -> dict[str, object]:
    return {
        "_id": f"q{number}",
        "question": f"Where was the director of Film {number} born?",
        "answer": f"Town {number}",
        "type": "bridge",
        "supporting_facts": [[f"Film {number}", 0], [f"Ann {number}", 0]],
        "context": [
            [f"Ann {number}", [f"Ann {number} was born in Town {number}."]],
            [f"Film {number}", [f"A film by Ann {number}."]],
            [f"Rain {number}", ["Rain is water."]],
            ["Void", [""]],
        ],
    }


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "records.json"
    path.write_text(json.dumps([record(number) for number in range(12)]))
    return path


def make(records: Path, out: Path, **changes: object) -> dict[str, object]:
    given = {"documents": 8, "validation": 4} | changes
    return make_long_context(LongContextSettings("hotpotqa", [records], out, **given))  # type: ignore[arg-type]


@needs_hotpot
@pytest.mark.parametrize("documents", [50, 200])
def test_every_gold_paragraph_of_hotpotqa_stands_there_exactly_once(documents: int, tmp_path: Path) -> None:
    for name in ("a", "b"):
        make(HOTPOT, tmp_path / name, documents=documents, validation=200, train=0)
    questions = {
        question.id: question
        for _, raw in read_records(HOTPOT)
        if (question := parse_hotpotqa(raw))  # type: ignore[arg-type]
    }
    places = [json.loads(line) for line in (tmp_path / "a" / "places.jsonl").read_text().splitlines()]
    rows = read_rows(tmp_path / "a" / "validation.parquet")
    assert len(rows) == len(places) == 200
    for row, place in zip(rows, places, strict=True):
        question = questions[row.task.id]
        parts = row.task.document.split("\n\nDocument ")
        assert len(parts) == place["paragraphs"] == documents
        assert len(question.gold) == len(place["places"])
        for page, number in zip(question.gold, place["places"], strict=True):
            text = f"{page.title}\n{page.text}"
            assert row.task.document.count(text) == 1
            assert parts[number - 1].removeprefix("Document ").partition(":\n")[2] == text
        assert hashlib.sha256(row.task.document.encode()).hexdigest() == place["sha256"]
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    assert changed_outputs(tmp_path / "a") == []


def test_places_are_drawn_by_the_seed_and_question_alone(records: Path, tmp_path: Path) -> None:
    make(records, tmp_path / "a", validation=4)
    make(records, tmp_path / "b", validation=6)
    make(records, tmp_path / "c", validation=4, seed=1)
    a, b, c = (
        {line["id"]: line["places"] for line in map(json.loads, (tmp_path / n / "places.jsonl").open())}
        for n in "abc"
    )
    assert a == b
    assert a != c


def test_questions_that_are_answered_without_a_document_are_left_out(records: Path, tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    lines = [{"id": "q1", "em_each": [True]}, {"id": "q2", "em_each": [False]}]
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = make(records, tmp_path / "out", known=[samples])
    assert manifest["counts"]["known"] == 1  # type: ignore[index]
    ids = {
        row.task.id
        for split in ("train", "validation")
        for row in read_rows(tmp_path / "out" / f"{split}.parquet")
    }
    assert ids == {f"q{number}" for number in range(12)} - {"q1"}
    (tmp_path / "wrong.jsonl").write_text('{"id": "q1"}\n')
    with pytest.raises(DataError, match=r"wrong.jsonl: line 1 is no sample"):
        make(records, tmp_path / "out", known=[tmp_path / "wrong.jsonl"])


def test_a_limit_in_tokens_is_kept_and_used(records: Path, tmp_path: Path) -> None:
    question = parse_hotpotqa(record(3))
    pages = [Paragraph(f"Page {number}", "Some words that fill it.") for number in range(400)]
    for limit in (60, 200, 1000):
        made = hide(
            question, Distractors(pages), random.Random(1), tokens=limit, count=lambda text: len(text.split())
        )
        size = len(made.text.split())
        assert limit - 12 <= size <= limit
        assert all(made.text.count(f"{page.title}\n{page.text}") == 1 for page in question.gold)
    with pytest.raises(DataError, match="'q3': its gold paragraphs have"):
        hide(question, Distractors(pages), random.Random(1), tokens=5, count=lambda text: len(text.split()))


@pytest.mark.skipif(qwen_folder() is None, reason="needs a tokenizer")
def test_tokens_are_those_of_the_named_tokenizer(records: Path, tmp_path: Path) -> None:
    from tests.mempo.support import qwen_tokens

    make(records, tmp_path / "out", documents=None, tokens=150, tokenizer=str(qwen_folder()))
    for row in read_rows(tmp_path / "out" / "validation.parquet"):
        assert 100 < len(qwen_tokens("qwen3").encode_inert(row.task.document)) <= 150


def test_too_few_distractors_or_questions_are_named(records: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="and 100 are asked for: give more --input or --corpus"):
        make(records, tmp_path / "out", documents=100)
    with pytest.raises(DataError, match="12 usable questions"):
        make(records, tmp_path / "out", validation=13)
    with pytest.raises(DataError, match="exactly one of --documents and --tokens"):
        make(records, tmp_path / "out", tokens=5, tokenizer="x")


def test_a_corpus_gives_further_distractors(records: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"title": f"T{n}", "text": "x"}) + "\n" for n in range(80)))
    make(records, tmp_path / "out", documents=100, corpora=[corpus])
    assert read_rows(tmp_path / "out" / "validation.parquet")[0].task.document.count("Document ") == 100


def test_the_evaluation_file_reads_back_as_the_same_questions(records: Path, tmp_path: Path) -> None:
    make(records, tmp_path / "a")
    result = CliRunner().invoke(
        app, ["ruler-hqa", "--input", str(tmp_path / "a" / "eval_8.jsonl"), "--out", str(tmp_path / "b")]
    )
    assert result.exit_code == 0, result.output
    ours, again = (read_rows(tmp_path / name / "validation.parquet") for name in "ab")
    assert [row.task for row in ours] == [row.task for row in again]
    assert [row.reference.answers for row in ours] == [row.reference.answers for row in again]
    line = json.loads((tmp_path / "a" / "eval_8.jsonl").read_text().splitlines()[0])
    assert set(line) == {"index", "id", "input", "context", "answers", "num_docs"}


def test_needles_stand_in_their_text_and_answers_in_its_order(tmp_path: Path) -> None:
    for kind, objectives in (("single", 1), ("multi_key", 1), ("multi_value", 4)):
        out = tmp_path / kind
        result = CliRunner().invoke(
            app, ["needles", "--kind", kind, "--characters", "4000", "--questions", "5", "--out", str(out)]
        )
        assert result.exit_code == 0, result.output
        for row in read_rows(out / "validation.parquet"):
            text = row.task.document
            values = [aliases[0] for aliases in row.reference.answers]
            assert len(values) == row.task.objectives == objectives
            assert all(text.count(value) == 1 for value in values)
            assert [text.index(value) for value in values] == sorted(text.index(value) for value in values)
            assert text.count("special magic numbers") == (1 if kind == "single" else 4)
            assert 3500 < len(text) < 5000
            assert not any(value in row.task.question for value in values)


def test_selection_keeps_the_middle_and_holds_out_without_looking(records: Path, tmp_path: Path) -> None:
    make(records, tmp_path / "a", validation=1)
    ids = [row.task.id for row in read_rows(tmp_path / "a" / "train.parquet")]
    runs = []
    for number in range(8):
        run = tmp_path / f"run{number}"
        run.mkdir()
        lines = [
            {"id": name, "em_each": [place % 3 == 0 or (place % 3 == 1 and number < 4)]}
            for place, name in enumerate(ids)
        ]
        (run / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (run / "settings.json").write_text(json.dumps({"model": {"name": "m"}, "sampling": {"seed": number}}))
        runs += ["--run", str(run)]
    arguments = ["select", "--data", str(tmp_path / "a" / "train.parquet"), *runs, "--pass-at", "8"]
    for out in ("x", "y"):
        more = ["--train", "2", "--held-out", "4", "--out", str(tmp_path / out)]
        result = CliRunner().invoke(app, [*arguments, *more])
        assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "x" / "ids.json").read_text())
    assert kept == json.loads((tmp_path / "y" / "ids.json").read_text())
    assert set(kept["pass_rate"].values()) == {0.5}
    assert not set(kept["train"]) & set(kept["validation"])
    assert [row.task.id for row in read_rows(tmp_path / "x" / "train.parquet")] == kept["train"]
    manifest = json.loads((tmp_path / "x" / "manifest.json").read_text())
    assert manifest["models"][3] == {"model": {"name": "m"}, "sampling": {"seed": 3}}
    result = CliRunner().invoke(
        app, [*arguments, "--train", "9", "--held-out", "4", "--out", str(tmp_path / "z")]
    )
    assert result.exit_code == 1
    assert "of 9 with 8 answers" in result.output
