"""Long documents: every gold paragraph exactly once, at recorded places; the same seed gives the same bytes."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.reading_settings import reading_settings
from tests.mempo.support import qwen_folder
from tools.data.cli import app
from tools.data.hidden_paragraphs import Distractors, hide
from tools.data.hotpotqa import parse_hotpotqa
from tools.data.long_context import LongContextSettings, make_long_context
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
    failure = {"cause": "connection", "message": ""}
    lines = [
        {"id": "q1", "em_each": [True], "failure": None},
        {"id": "q2", "em_each": [False], "failure": None},
        {"id": "q3", "em_each": [False], "failure": failure},
    ]
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = make(records, tmp_path / "out", known=[samples])
    assert manifest["counts"]["known"] == 1  # type: ignore[index]
    ids = {
        row.task.id
        for split in ("train", "validation")
        for row in read_rows(tmp_path / "out" / f"{split}.parquet")
    }
    assert ids == {f"q{number}" for number in range(12)} - {"q1"}


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "q1"}',
        '{"id": null, "em_each": [true]}',
        '{"id": 1, "em_each": [true]}',
        '{"id": "q1", "em_each": []}',
    ],
)
def test_what_is_no_sample_is_refused_and_never_a_right_answer(
    records: Path, tmp_path: Path, line: str
) -> None:
    (tmp_path / "wrong.jsonl").write_text(line + "\n")
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
    make(records, tmp_path / "a", train=0)
    read(tmp_path / "a" / "eval_8.jsonl", tmp_path / "b")
    ours, again = (read_rows(tmp_path / name / "validation.parquet") for name in "ab")
    assert [row.task for row in ours] == [row.task for row in again]
    assert [row.reference.answers for row in ours] == [row.reference.answers for row in again]
    assert [row.data_source for row in ours] == [row.data_source for row in again] == ["ruler_hqa_8"] * 4
    line = json.loads((tmp_path / "a" / "eval_8.jsonl").read_text().splitlines()[0])
    assert set(line) == {"index", "id", "input", "context", "answers", "num_docs"}


def read(file: Path, out: Path, *more: str) -> None:
    result = CliRunner().invoke(app, ["ruler-hqa", "--input", str(file), "--out", str(out), *more])
    assert result.exit_code == 0, result.output


def sources(folder: Path) -> dict[str, set[str]]:
    return {path.stem: {row.data_source for row in read_rows(path)} for path in folder.glob("*.parquet")}


def test_an_evaluation_set_is_named_with_its_size_and_a_training_set_as_its_data_set(
    records: Path, tmp_path: Path
) -> None:
    sizes: list[tuple[dict[str, object], str]] = [
        ({"documents": 6}, "ruler_hqa_6"),
        ({"documents": 8}, "ruler_hqa_8"),
        ({"documents": 8, "name": "mine"}, "mine"),
    ]
    for changes, name in sizes:
        make(records, tmp_path / "out", train=0, **changes)
        assert sources(tmp_path / "out") == {"validation": {name}}
    make(records, tmp_path / "out")
    assert sources(tmp_path / "out") == {"train": {"hotpotqa"}, "validation": {"hotpotqa"}}
    make(records, tmp_path / "out", name="mine")
    assert sources(tmp_path / "out") == {"train": {"mine"}, "validation": {"mine"}}
    settings = LongContextSettings("musique", [records], tmp_path, tokens=2000, tokenizer="x")
    assert settings.evaluation_name == "musique_2000_tokens"


def test_a_file_in_the_layout_of_ruler_hqa_is_named_by_its_size_or_as_told(tmp_path: Path) -> None:
    line = {"index": 0, "input": "Who?", "context": "Ann.", "answers": ["Ann"]}
    for sizes, name in (([50, 50], "ruler_hqa_50"), ([50, 51], "eval"), ([None, None], "eval")):
        lines = [{**line, "index": index, "num_docs": size} for index, size in enumerate(sizes)]
        (tmp_path / "eval.json").write_text(json.dumps(lines))
        read(tmp_path / "eval.json", tmp_path / "out")
        assert sources(tmp_path / "out") == {"validation": {name}}
    read(tmp_path / "eval.json", tmp_path / "out", "--name", "ruler_hqa_50")
    assert sources(tmp_path / "out") == {"validation": {"ruler_hqa_50"}}
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"] == {
        "name": "ruler_hqa_50"
    }


def test_a_folder_holds_what_its_manifest_lists_and_an_error_changes_nothing(
    records: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    make(records, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert set(before) == {
        "train.parquet",
        "validation.parquet",
        "eval_8.jsonl",
        "places.jsonl",
        "manifest.json",
    }
    with pytest.raises(DataError, match="give more --input or --corpus"):
        make(records, out, documents=100)
    (tmp_path / "bad.jsonl").write_text('{"input": "Who?", "context": "Ann.", "answers": ["Ann"]}\n{}\n')
    refused = [tmp_path / "bad.jsonl", out / "eval_8.jsonl"]
    for file, told in zip(refused, ("line 2: field answers", "choose another folder"), strict=True):
        result = CliRunner().invoke(app, ["ruler-hqa", "--input", str(file), "--out", str(out)])
        assert result.exit_code == 1
        assert told in " ".join(result.output.split())
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    read(Path(shutil.copy(out / "eval_8.jsonl", tmp_path)), out)
    assert {path.name for path in out.iterdir()} == {"validation.parquet", "manifest.json"}
    assert changed_outputs(out) == []


@pytest.mark.skipif(qwen_folder() is None, reason="needs a tokenizer")
def test_questions_whose_gold_paragraphs_are_over_the_limit_are_left_out_and_counted(
    records: Path, tmp_path: Path
) -> None:
    given = [record(number) for number in range(12)]
    given[5]["context"][0][1] = ["Ann 5 was born in Town 5. " * 60]  # type: ignore[index]
    records.write_text(json.dumps(given))
    found = make(records, tmp_path / "out", documents=None, tokens=150, tokenizer=str(qwen_folder()))
    assert found["counts"]["gold_too_long"] == 1  # type: ignore[index]
    ids = {
        row.task.id
        for split in ("train", "validation")
        for row in read_rows(tmp_path / "out" / f"{split}.parquet")
    }
    assert ids == {f"q{number}" for number in range(12)} - {"q5"}


@needs_hotpot
@pytest.mark.skipif(qwen_folder() is None, reason="needs a tokenizer")
def test_documents_of_2000_tokens_fit_the_short_recipe(tmp_path: Path) -> None:
    from tests.mempo.support import qwen_tokens

    agent = reading_settings("memagent_short")
    make(HOTPOT, tmp_path, documents=None, tokens=2000, tokenizer=str(qwen_folder()), validation=60, train=0)
    chunks = [
        len(qwen_tokens("qwen3").chunks(row.task.document, agent["max_observation_tokens"]))
        for row in read_rows(tmp_path / "validation.parquet")
    ]
    assert len(chunks) == 60
    assert set(chunks) == {agent["max_turns"] - 1}
