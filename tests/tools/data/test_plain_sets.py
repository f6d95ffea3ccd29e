"""Data sets without passages: DeepResearcher's parquet, and JSON lines of questions and answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tools.data.cli import app
from tools.data.convert import ConvertSettings, convert
from tools.data.deepresearcher import SOURCES, parse_deepresearcher
from tools.data.plain import parse_plain
from tools.data.question import MalformedRecord, Unusable
from tools.data.records import DataError
from tools.data.schema import read_rows

REAL = Path(__file__).parents[4] / "shared" / "data" / "deepresearcher"
COUNTS = (2, 4, 6, 8, 10, 16)


def row(number: int, source: str = "nq", answer: str | None = None) -> dict[str, Any]:
    """One row as DeepResearcher's files have it."""
    return {
        "data_source": source,
        "prompt": [{"content": f"who is number {number}", "role": "user"}],
        "ability": "search & question answering",
        "reward_model": {
            "ground_truth": answer or f"Ann {number}<|answer_split|>A. {number}",
            "style": "unknown",
        },
        "extra_info": {"index": f"{source}_{number}", "split": "dev"},
    }


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    return path


def call(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


def test_aliases_are_split_and_the_data_set_is_named_as_ours() -> None:
    question = parse_deepresearcher(
        row(3, "tq", "Ann Lee<|answer_split|>ann lee <|answer_split|><|answer_split|>Lee")
    )
    assert (question.id, question.question, question.source) == ("tq_3", "who is number 3", "triviaqa")
    assert question.answers == ["Ann Lee", "ann lee", "Lee"]
    assert (question.hops, question.type, question.paragraphs) == (0, "", [])


def test_musique_ids_tell_the_hops() -> None:
    record = row(1, "musique") | {"extra_info": {"index": "musique_3hop1__13_17_23", "split": "dev"}}
    question = parse_deepresearcher(record)
    assert (question.hops, question.type) == (3, "3hop1")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"data_source": "squad"}, "data_source"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [{"content": " ", "role": "user"}]}, "content"),
        ({"reward_model": None}, "reward_model"),
        ({"reward_model": {"ground_truth": "?<|answer_split|>!"}}, "ground_truth"),
        ({"extra_info": {"split": "dev"}}, "index"),
    ],
)
def test_a_malformed_row_is_named_by_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(MalformedRecord) as caught:
        parse_deepresearcher(row(1) | change)
    assert caught.value.field == field


def test_rows_of_other_data_sets_are_left_out_and_counted() -> None:
    with pytest.raises(Unusable, match="other_source"):
        parse_deepresearcher(row(1, "tq"), sources=["nq"])


def test_one_folder_per_data_set_or_the_chosen_ones_mixed(tmp_path: Path) -> None:
    rows = [row(n, source) for n in range(4) for source in ("nq", "Bamboogle", "hotpotqa")]
    source = write_parquet(tmp_path / "test.parquet", rows)
    code, text = call("deepresearcher", "--input", source, "--out", tmp_path / "each")
    assert code == 0
    assert "nq: 4 validation rows from 4 records (8 of other data sets) (0 malformed, 0 unusable)" in text
    assert sorted(path.name for path in (tmp_path / "each").iterdir()) == ["bamboogle", "hotpotqa", "nq"]
    for name in ("bamboogle", "hotpotqa", "nq"):
        folder = tmp_path / "each" / name
        assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "validation.parquet"]
        assert {each.data_source for each in read_rows(folder / "validation.parquet")} == {name}

    chosen = ["--source", "hotpotqa", "--source", "nq", "--objectives", "2"]
    code, text = call("deepresearcher", "--input", source, "--out", tmp_path / "mixed", *chosen)
    assert code == 0, text
    mixed = read_rows(tmp_path / "mixed" / "validation.parquet")
    assert len(mixed) == 4
    assert {each.data_source for each in mixed} <= {"nq", "hotpotqa", "hotpotqa+nq"}
    used = [part for each in mixed for part in each.task.id.split("+")]
    assert sorted(used) == sorted(f"{name}_{n}" for name in ("hotpotqa", "nq") for n in range(4))

    code, text = call("deepresearcher", "--input", source, "--out", tmp_path / "x", "--source", "squad")
    assert code == 1
    assert "'squad' is unknown; known are nq, triviaqa" in text


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"data_source": "squad"}, "data_source is 'squad' (3), known are nq, tq, hotpotqa"),
        ({"data_source": None}, "data_source is None (3)"),
    ],
)
def test_a_file_of_unknown_data_sets_is_an_error_that_names_them(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    source = write_parquet(tmp_path / "test.parquet", [row(n) | change for n in range(3)])
    code, text = call("deepresearcher", "--input", source, "--out", tmp_path / "out")
    assert code == 1
    assert f"error: test.parquet: no row is of a known data set; {told}" in text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("fields", "answers"),
    [
        ({"answers": ["Ann", "A. Lee"]}, ["Ann", "A. Lee"]),
        ({"golden_answers": ["Ann"]}, ["Ann"]),
        ({"target": ["Ann"], "answer": "not this"}, ["Ann"]),
        ({"answer": "Ann\nLee"}, ["Ann Lee"]),
        ({"answer": {"value": "Ann", "aliases": ["Lee"]}}, ["Ann", "Lee"]),
        ({"possible_answers": '["Ann", "Lee"]'}, ["Ann", "Lee"]),
    ],
)
def test_answers_are_read_in_every_shape_that_the_sets_have(
    fields: dict[str, Any], answers: list[str]
) -> None:
    question = parse_plain({"question": "Who?", "id": 7, **fields})
    assert (question.id, question.question, question.answers) == ("7", "Who?", answers)


def test_a_question_without_an_id_gets_one_that_depends_on_its_text_alone() -> None:
    first = parse_plain({"question": "who?", "answer": "Ann"})
    assert first.id == parse_plain({"question": " who? ", "answers": ["Lee"]}).id
    assert first.id != parse_plain({"question": "where?", "answer": "Ann"}).id


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "field answers: is missing; known are answers, golden_answers, target"),
        ({"answers": [["Ann"]]}, "field answers: a string or a list of strings"),
        ({"answers": []}, "field answers: holds no answer"),
        ({"target": ["!"]}, "field target: '!' is empty after normalisation"),
        ({"possible_answers": "Ann"}, "field possible_answers: is a text, but no JSON"),
        ({"answer": "Ann", "id": [1]}, "field id: a string is expected"),
    ],
)
def test_a_malformed_record_is_named_by_its_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(MalformedRecord, match=message):
        parse_plain({"question": "Who?", **fields})


def test_json_lines_become_an_evaluation_set_or_two_splits(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [{"question": f"who is {n}?", "answer": f"Ann {n}"} for n in range(20)]
    source = write_lines(tmp_path / "in.jsonl", [*records, {"question": "who?"}])
    words = ["jsonl", "--input", source, "--name", "popqa"]
    code, text = call(*words, "--out", tmp_path / "both")
    assert code == 0, text
    assert "in.jsonl: line 21: field answers: is missing" in text
    assert "18 train and 2 validation rows" in text
    code, text = call(*words, "--out", tmp_path / "both", "--validation-only")
    assert code == 0, text
    assert "20 validation rows" in text
    files = sorted(path.name for path in (tmp_path / "both").iterdir())
    assert files == ["manifest.json", "validation.parquet"]  # nothing of the first conversion is left
    rows = read_rows(tmp_path / "both" / "validation.parquet")
    assert {each.data_source for each in rows} == {"popqa"}
    assert [each.task.question for each in rows] == [f"who is {n}?" for n in range(20)]


@pytest.mark.parametrize("objectives", COUNTS)
def test_ids_of_the_parts_can_be_read_off_a_composed_question(tmp_path: Path, objectives: int) -> None:
    records = [{"question": f"who is {n}", "answer": f"Ann {n}", "id": f"a+{n}"} for n in range(33)]
    source = write_lines(tmp_path / "in.jsonl", records)
    settings = ConvertSettings(
        "jsonl", [source], tmp_path / "out", objectives=objectives, validation_only=True, name="nq"
    )
    counts = convert(settings)["counts"]
    rows = read_rows(tmp_path / "out" / "validation.parquet")
    assert len(rows) == counts["rows"]["validation"] == 33 // objectives
    for each in rows:
        parts = [part.replace("%2B", "+") for part in each.task.id.split("+")]
        numbers = [part.removeprefix("a+") for part in parts]
        assert each.task.question == "; ".join(f"who is {n}?" for n in numbers)
        assert each.reference.answers == [[f"Ann {n}"] for n in numbers]
        assert each.task.objectives == objectives


def test_files_that_are_not_of_a_conversion_are_left_alone(tmp_path: Path) -> None:
    official = write_parquet(tmp_path / "train.parquet", [row(n) for n in range(4)])
    words = ["--out", tmp_path, "--source", "nq"]
    code, text = call("deepresearcher", "--input", official, *words)
    assert code == 1
    assert "train.parquet would be overwritten" in text
    source = write_parquet(tmp_path / "test.parquet", [row(n) for n in range(4)])
    for _ in range(2):
        assert call("deepresearcher", "--input", source, *words)[0] == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["manifest.json", "test.parquet", "train.parquet", "validation.parquet"]


def test_what_cannot_be_parquet_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("hello")
    with pytest.raises(DataError, match=r"x\.parquet: cannot be read as parquet"):
        convert(ConvertSettings("deepresearcher", [tmp_path / "x.parquet"], tmp_path, validation_only=True))


@pytest.mark.skipif(not REAL.is_dir(), reason="DeepResearcher's files in shared/data are not here")
@pytest.mark.parametrize("objectives", [1, *COUNTS])
def test_every_data_set_of_the_real_file_converts_in_every_composition(
    tmp_path: Path, objectives: int
) -> None:
    for source in SOURCES.values():
        settings = ConvertSettings(
            "deepresearcher",
            [REAL / "test.parquet"],
            tmp_path / source,
            objectives=objectives,
            sources=[source],
            validation_only=True,
        )
        counts = convert(settings)["counts"]
        assert counts["malformed"] == {}
        assert counts["questions"]["validation"] == (125 if source == "bamboogle" else 512)
        rows = read_rows(tmp_path / source / "validation.parquet")
        left_out = sum(counts["left_out"]["validation"].values())
        assert len(rows) * objectives + left_out == counts["questions"]["validation"]
        assert all(len(each.reference.answers) == objectives for each in rows)
