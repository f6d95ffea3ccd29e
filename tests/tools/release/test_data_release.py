"""A data folder as a data set of the hub: loads by its card, counts what is in it, keeps its licences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mempo.task import Reference, Task
from tools.data.manifest import changed_outputs, write_manifest
from tools.data.schema import QuestionRow, write_rows
from tools.release.check import release_problems
from tools.release.data_cli import app
from tools.release.data_release import make_data_release
from tools.release.errors import ReleaseError
from tools.release.licences import licences_of


def row(number: int, split: str, source: str) -> QuestionRow:
    task = Task(f"{split}-{number}", f"Question {number}?")
    return QuestionRow(
        task, Reference([[f"answer {number}"]], ["A page"]), source, split, number, 2, "bridge"
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    outputs = [folder / f"{name}.parquet" for name in ("train", "validation")]
    write_rows(outputs[0], [row(n, "train", "hotpotqa" if n % 2 else "hotpotqa+nq") for n in range(5)])
    write_rows(outputs[1], [row(n, "validation", "musique") for n in range(3)])
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"id": str(n), "title": "T", "text": "x"}) + "\n" for n in range(4)))
    supporting = folder / "supporting.jsonl"
    supporting.write_text(json.dumps({"id": "train-0", "paragraphs": [{"title": "T", "text": "x"}]}) + "\n")
    write_manifest(folder, [], [*outputs, corpus, supporting], {"dataset": "hotpotqa", "seed": 3})
    return folder


def test_it_loads_by_its_card_with_the_rows_of_its_files(data: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    out = tmp_path / "out"
    made = make_data_release(data, out)
    questions = load_dataset(str(out), cache_dir=str(tmp_path / "cache"))  # the default configuration
    assert {split: rows.num_rows for split, rows in questions.items()} == {"train": 5, "validation": 3}
    assert questions["train"][1]["reference"]["answers"] == [["answer 1"]]
    passages = load_dataset(str(out), "corpus", cache_dir=str(tmp_path / "cache"))["corpus"]
    assert passages.num_rows == made["passages"] == 4
    assert release_problems(out) == []
    assert changed_outputs(out) == []  # still a data folder of ours


def test_the_card_counts_and_names_licences_and_hashes(data: Path, tmp_path: Path) -> None:
    from huggingface_hub import DatasetCard

    make_data_release(data, tmp_path / "out")
    card = DatasetCard.load(tmp_path / "out" / "README.md")
    assert card.data["license"] == ["cc-by-sa-4.0", "cc-by-4.0", "cc-by-sa-3.0"]
    assert card.data["size_categories"] == "n<1K"
    assert [info["config_name"] for info in card.data["dataset_info"]] == [
        "questions",
        "corpus",
        "supporting",
    ]
    for line in (
        "| train | 5 |",
        "| hotpotqa | 2 | bridge | 2 | 0 |",
        "| hotpotqa+nq | 2 | bridge | 3 | 0 |",
        "| musique | 2 | bridge | 0 | 3 |",
        "| nq | CC BY-SA 3.0 | https://ai.google.com/research/NaturalQuestions |",
    ):
        assert line in card.text, line
    for entry in json.loads((data / "manifest.json").read_text())["outputs"]:
        assert f"| {entry['name']} | `{entry['sha256']}` |" in card.text


def test_a_set_without_a_licence_on_record_is_said_to_have_none() -> None:
    known, strange = licences_of(["2wikimultihopqa+bamboogle"])
    assert known.identifier == "apache-2.0"
    assert (strange.source, strange.identifier) == ("bamboogle", "unknown")
    assert "ask the set's authors" in strange.origin


@pytest.mark.parametrize("name", ["train.parquet", "corpus.jsonl"])
def test_a_folder_that_is_not_as_it_was_made_is_refused(data: Path, tmp_path: Path, name: str) -> None:
    (data / name).write_bytes((data / name).read_bytes() + b"\n")
    with pytest.raises(ReleaseError, match=f"{name} is not what manifest.json lists"):
        make_data_release(data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unfinished_folder_is_refused(data: Path, tmp_path: Path) -> None:
    (data / "manifest.json").unlink()
    with pytest.raises(ReleaseError, match=r"manifest\.json is missing"):
        make_data_release(data, tmp_path / "out")


def test_a_question_in_both_splits_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    outputs = [folder / "train.parquet", folder / "validation.parquet"]
    for path in outputs:
        write_rows(path, [row(1, "train", "nq")])
    write_manifest(folder, [], outputs, {"dataset": "jsonl", "seed": 0})
    with pytest.raises(ReleaseError, match="'train-1' is in train and validation"):
        make_data_release(folder, tmp_path / "out")


def test_an_evaluation_set_without_passages_is_a_release_too(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write_rows(folder / "validation.parquet", [row(n, "validation", "nq") for n in range(2)])
    write_manifest(folder, [], [folder / "validation.parquet"], {"dataset": "jsonl", "seed": 0})
    result = CliRunner().invoke(app, ["--data", str(folder), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "Without passages" in (tmp_path / "out" / "README.md").read_text()
    assert CliRunner().invoke(app, ["--check", str(tmp_path / "out")]).exit_code == 0
    dry = CliRunner().invoke(app, ["--out", str(tmp_path / "out"), "--push", "org/name"])
    assert "dataset org/name (private): 4 files" in dry.output
