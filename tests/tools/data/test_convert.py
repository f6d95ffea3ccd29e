"""Conversion end to end: files, splits, composition, determinism, the account of what was left out."""

import gzip
import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tools.data.cli import app
from tools.data.convert import ConvertSettings, convert
from tools.data.manifest import changed_outputs
from tools.data.records import DataError
from tools.data.schema import read_rows
from tools.search.corpus import read_corpus

DATA = Path(__file__).parents[4] / "shared" / "data"
FILES = ["train.parquet", "validation.parquet", "corpus.jsonl", "supporting.jsonl", "manifest.json"]


def record(number, **changes):
    return {
        "_id": f"q{number}",
        "question": f"Where was the director of Film {number} born" + "?" * (number % 2),
        "answer": f"Town {number}",
        "type": "bridge",
        "supporting_facts": [[f"Film {number}", 0], [f"Ann {number}", 0]],
        "context": [
            [f"Ann {number}", [f"Ann {number} was born in Town {number}."]],
            [f"Film {number}", [f"A film by Ann {number}."]],
            ["Rain", ["Rain is water."]],
            ["Void", [""]],
        ],
        **changes,
    }


def write(path, records, as_list=False):
    lines = [line if isinstance(line, str) else json.dumps(line) for line in records]
    path.write_text("[" + ",".join(lines) + "]" if as_list else "\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def source(tmp_path):
    return write(tmp_path / "in.json", [record(i) for i in range(20)])


def settings(source, out, **changes):
    return ConvertSettings("hotpotqa", [source], out, **changes)


def digests(folder):
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}


def test_a_data_folder_holds_splits_corpus_gold_and_manifest(source, tmp_path):
    manifest = convert(settings(source, tmp_path / "out"))
    train, validation = (
        read_rows(tmp_path / "out/train.parquet"),
        read_rows(tmp_path / "out/validation.parquet"),
    )
    assert (len(train), len(validation)) == (18, 2)
    assert {row.task.id for row in train + validation} == {f"q{i}" for i in range(20)}
    first = next(row for row in train + validation if row.task.id == "q3")
    assert first.reference.answers == [["Town 3"]]
    assert first.reference.supporting == ["Film 3", "Ann 3"]
    assert (first.data_source, first.hops, first.type) == ("hotpotqa", 2, "bridge")
    assert [row.index for row in train] == list(range(18))
    corpus = read_corpus(tmp_path / "out/corpus.jsonl")
    assert len(corpus) == len({page.id for page in corpus}) == 41
    counts = manifest["counts"]
    assert (counts["passages"], counts["repeated_passages"], counts["blank_passages"]) == (41, 19, 20)
    assert json.loads((tmp_path / "out/manifest.json").read_text()) == manifest
    assert manifest["inputs"][0]["sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert [entry["name"] for entry in manifest["outputs"]] == FILES[:4]


def test_supporting_passages_come_in_hop_order_with_their_split(source, tmp_path):
    convert(settings(source, tmp_path / "out"))
    lines = [json.loads(line) for line in (tmp_path / "out/supporting.jsonl").read_text().splitlines()]
    line = next(line for line in lines if line["id"] == "q3")
    assert (line["question"], line["answer"]) == ("Where was the director of Film 3 born?", "Town 3")
    assert [(page["title"], page["objective"]) for page in line["paragraphs"]] == [
        ("Film 3", 0),
        ("Ann 3", 0),
    ]
    held_out = {row.task.id for row in read_rows(tmp_path / "out/validation.parquet")}
    assert {line["id"] for line in lines if line["split"] == "validation"} == held_out


def test_list_and_lines_give_the_same_rows(source, tmp_path):
    convert(settings(source, tmp_path / "a"))
    convert(settings(write(tmp_path / "list.json", [record(i) for i in range(20)], True), tmp_path / "b"))
    assert all(digests(tmp_path / "a")[name] == digests(tmp_path / "b")[name] for name in FILES[:4])


def test_gzip_is_told_by_its_first_bytes(source, tmp_path):
    convert(settings(source, tmp_path / "plain"))
    packed = tmp_path / "packed"  # no ending tells
    packed.write_bytes(gzip.compress(source.read_bytes()))
    convert(settings(packed, tmp_path / "out"))
    misnamed = tmp_path / "plain.json.gz"  # some servers unpack on the way
    misnamed.write_bytes(source.read_bytes())
    convert(settings(misnamed, tmp_path / "misnamed"))
    for folder in ("out", "misnamed"):
        assert all(
            digests(tmp_path / "plain")[name] == digests(tmp_path / folder)[name] for name in FILES[:4]
        )


def test_every_command_that_reads_records_takes_gzip(source, tmp_path):
    def packed(name, content):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content))
        return str(path)

    table = io.BytesIO()
    question = {
        "data_source": "nq",
        "prompt": [{"content": "who?", "role": "user"}],
        "reward_model": {"ground_truth": "Ann"},
        "extra_info": {"index": "nq_1"},
    }
    pq.write_table(pa.Table.from_pylist([question]), table)
    ruler = {"id": "a", "input": "Q?", "context": "Some text.", "answers": ["x"]}
    records = packed("records.gz", source.read_bytes())
    corpus = packed("corpus.gz", b'{"title": "Sun", "text": "The sun."}')
    known = packed("samples.gz", b'{"id": "q0", "em_each": [true], "failure": null}')
    names = packed("names.gz", b'{"Q_id": "Q5", "aliases": ["Vale Port"]}')
    for words in (
        ["2wiki", "--input", records, "--aliases", names],
        [
            "hotpotqa",
            "--input",
            str(source),
            "--validation-input",
            packed("dev.gz", json.dumps(record(50)).encode()),
        ],
        [
            "jsonl",
            "--input",
            packed("plain.gz", b'{"question": "who?", "answer": "Ann"}'),
            "--name",
            "x",
            "--validation-only",
        ],
        ["deepresearcher", "--input", packed("test.parquet.gz", table.getvalue())],
        ["ruler-hqa", "--input", packed("eval.gz", json.dumps(ruler).encode())],
        [
            "long-context",
            "--input",
            records,
            "--corpus",
            corpus,
            "--known",
            known,
            "--documents",
            "5",
            "--validation",
            "2",
        ],
    ):
        result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / words[0])])
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (gzip.compress(b'{"question": 1}' * 50)[:-9], "a damaged gzip file"),
        (b"\x1f\x8b\x08" + b"x" * 30, "a damaged gzip file"),
        (gzip.compress(b"PK\x03\x04 and so on"), "a zip archive; unpack it"),
        (b"BZh91AY", "compressed with bzip2"),
        (b"\xfd7zXZ\x00", "compressed with xz"),
        (b"\x28\xb5\x2f\xfd\x04", "compressed with zstd"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_what_cannot_be_unpacked_is_named(tmp_path, content, told):
    (tmp_path / "in.json").write_bytes(content)
    with pytest.raises(DataError, match=f"in.json: {told}"):
        convert(settings(tmp_path / "in.json", tmp_path / "out"))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_split(source, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        convert(settings(source, tmp_path / name, seed=seed, objectives=2))
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert digests(tmp_path / "a")["train.parquet"] != digests(tmp_path / "c")["train.parquet"]
    assert changed_outputs(tmp_path / "a") == []
    (tmp_path / "a/corpus.jsonl").write_text("")
    (tmp_path / "a/train.parquet").unlink()
    assert changed_outputs(tmp_path / "a") == ["train.parquet", "corpus.jsonl"]
    assert changed_outputs(tmp_path / "nowhere") == ["manifest.json"]


def test_objectives_are_joined_with_one_alias_list_each(tmp_path):
    records = [record(i, answer_aliases=[f"T{i}", "a;b"]) for i in range(19)] + [record(19, answer="x; y")]
    manifest = convert(settings(write(tmp_path / "in.json", records), tmp_path / "out", objectives=3))
    rows = read_rows(tmp_path / "out/train.parquet")
    used = [part for row in rows for part in row.task.id.split("+")]
    assert len(used) == len(set(used)) == 3 * len(rows)
    assert "q19" not in used
    row = rows[0]
    parts = row.task.question.split("; ")
    assert len(parts) == row.task.objectives == len(row.reference.answers) == 3
    assert all(part.endswith("?") and not part.endswith("??") for part in parts)
    numbers = [name[1:] for name in row.task.id.split("+")]
    assert row.reference.answers == [[f"Town {n}", f"T{n}"] for n in numbers]
    assert (row.hops, row.type, len(row.reference.supporting)) == (6, "multi", 6)
    for split in ("train", "validation"):
        counts = manifest["counts"]
        assert counts["questions"][split] == counts["rows"][split] * 3 + sum(
            counts["left_out"][split].values()
        )


def test_malformed_records_are_counted_by_field_and_listed_by_line(tmp_path):
    lines = [
        record(0),
        "{broken",
        record(1, question=""),
        "[1]",
        record(2, context=None),
        record(0),
        record(3),
        record(4),
    ]
    source = write(tmp_path / "in.jsonl", lines)
    manifest = convert(settings(source, tmp_path / "out"))
    assert manifest["counts"]["malformed"] == {"context": 1, "id": 1, "json": 2, "question": 1}
    assert [problem.split(": ")[1] for problem in manifest["problems"]] == [
        f"line {n}" for n in (2, 3, 4, 5, 6)
    ]
    assert "'q0' was used in in.jsonl: line 1" in manifest["problems"][-1]
    assert sum(manifest["counts"]["rows"].values()) == 3
    with pytest.raises(DataError, match=r"5 malformed record(?s:.*)line 2: field json"):
        convert(settings(source, tmp_path / "strict", strict=True))
    assert not (tmp_path / "strict").exists()


def test_validation_inputs_hold_out_exactly_their_questions(source, tmp_path):
    held = write(tmp_path / "dev.json", [record(i) for i in (3, 50)], True)
    manifest = convert(settings(source, tmp_path / "out", validation_inputs=[held]))
    train = {row.task.id for row in read_rows(tmp_path / "out/train.parquet")}
    assert [row.task.id for row in read_rows(tmp_path / "out/validation.parquet")] == ["q3", "q50"]
    assert len(train) == 19
    assert "q3" not in train
    assert manifest["counts"]["malformed"] == {"id": 1}


def test_what_cannot_become_data_is_an_error(source, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(DataError, match="cannot be read"):
        convert(settings(tmp_path / "missing.json", out))
    with pytest.raises(DataError, match="starts like a JSON list"):
        convert(settings(write(tmp_path / "a.json", ["[1, "]), out))
    with pytest.raises(DataError, match="no train row can be made: 1 records"):
        convert(settings(write(tmp_path / "b.json", [record(0)]), out))
    with pytest.raises(DataError, match=r"(?s)1 malformed.*field answer"):
        convert(settings(write(tmp_path / "c.json", [record(0, answer=None)]), out))
    with pytest.raises(DataError, match="known are hotpotqa"):
        replace(settings(source, out), dataset="squad")
    with pytest.raises(DataError, match="validation share is 1"):
        replace(settings(source, out), validation_share=1.0)


def test_the_command_reports_and_fails_with_the_cause(source, tmp_path):
    broken = write(tmp_path / "more.jsonl", [record(30), record(31, answer=[])])
    arguments = ["hotpotqa", "--input", str(source), "--input", str(broken), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "more.jsonl: line 2: field answer" in result.output
    assert "19 train and 2 validation rows from 22 records (1 malformed" in result.output
    result = CliRunner().invoke(app, [*arguments, "--strict"])
    assert result.exit_code == 1
    assert "field answer" in result.output


@pytest.mark.parametrize(
    ("dataset", "name", "rows", "malformed"),
    [
        ("hotpotqa", "hotpot_agent/grpo_val.jsonl", 500, 0),
        ("hotpotqa", "migres/hotpot.json", 200, 0),
        ("2wikimultihopqa", "migres/wikihop_train_preprocess.json", 500, 0),
        ("2wikimultihopqa", "migres/wikihop.json", 164, 36),  # 36 records of this copy have no context
        ("musique", "migres/musique.json", 200, 0),
    ],
)
def test_real_records(dataset, name, rows, malformed, tmp_path):
    source = DATA / name
    if not source.is_file():
        pytest.skip(f"{source} is not there")
    counts = convert(ConvertSettings(dataset, [source], tmp_path))["counts"]
    assert sum(counts["rows"].values()) == rows
    assert sum(counts["malformed"].values()) == malformed
    titles = {page.title for page in read_corpus(tmp_path / "corpus.jsonl")}
    for row in read_rows(tmp_path / "train.parquet"):
        assert row.hops >= 2
        assert set(row.reference.supporting) <= titles
