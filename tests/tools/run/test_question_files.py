"""Too few questions, faulty rows, or none that the agent can read: named before anything starts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from omegaconf import DictConfig, OmegaConf

from mempo.task import Reference, Task
from tools.data.schema import QuestionRow, write_rows
from tools.run.data import DataFolder
from tools.run.errors import RunError
from tools.run.plan import check, make_plan
from tools.run.question_files import QuestionFiles, check_prepared
from tools.run.settings import find_recipe, load_config


def write(
    folder: Path, split: str, count: int, question: str = "Who is {split} {n}?", document: str = ""
) -> None:
    rows = (
        QuestionRow(
            Task(f"q{n}", question.format(split=split, n=n), document=document),
            Reference([["Ann"]]),
            "made",
            split,
            n,
        )
        for n in range(count)
    )
    write_rows(folder / f"{split}.parquet", rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "train", 20)
    write(tmp_path, "validation", 5)
    (tmp_path / "corpus.jsonl").write_text('{"id": "1", "title": "X", "text": "Ann."}\n')
    return tmp_path


@cache
def recipe_config(recipe: str, *groups: str) -> DictConfig:
    return load_config(find_recipe(recipe), list(groups))


def config(folder: Path | None = None, *overrides: str, recipe: str = "cpu") -> DictConfig:
    """A recipe's config over a prepared folder; composed once per recipe, for that takes longest here."""
    made = recipe_config(recipe, *(["task=parquet"] if folder and recipe == "cpu" else [])).copy()
    paths = (
        [f"task.data_dir={folder}", "run.cold_start=none", "actor_rollout_ref.model.path=x"] if folder else []
    )
    for override in [*paths, *overrides]:
        key, _, value = override.partition("=")
        OmegaConf.update(made, key, yaml.safe_load(value), force_add=True)
    return made


def test_a_folder_that_fits_has_no_problems(folder: Path) -> None:
    fits = config(folder, "data.train_batch_size=16", "run.eval_questions=5")
    assert QuestionFiles(fits).problems == QuestionFiles(fits).notes == []
    check_prepared(fits, DataFolder(folder))


def test_fewer_questions_than_a_batch_are_told_with_both_numbers_and_the_key(folder: Path) -> None:
    problems = check(config(folder, "data.train_batch_size=64", "run.eval_questions=400"))
    batch, held_out = (
        next(text for text in problems if key in text[:30]) for key in ("train_batch", "eval_q")
    )
    assert batch.startswith(
        f"data.train_batch_size is 64, but {folder}/train.parquet has 20 questions: lower"
    )
    assert held_out.startswith(
        f"run.eval_questions is 400, but {folder}/validation.parquet has 5 questions: lower"
    )


@pytest.mark.parametrize("task", ["world", "reading"])
def test_a_generated_task_is_held_to_what_it_promises(task: str) -> None:
    recipe = "cpu" if task == "world" else "memagent_cpu"
    few = config(None, "task.train=10", "task.validation=20", "run.eval_questions=30", recipe=recipe)
    problems = [text for text in check(few) if "questions: lower" in text]
    assert [text.partition(":")[0] for text in problems] == [
        "data.train_batch_size is 16, but task.train has 10 questions",
        "run.eval_questions is 30, but task.validation has 20 questions",
    ]
    assert not QuestionFiles(config(None, recipe=recipe)).problems


def test_what_verl_takes_of_the_file_is_what_counts(folder: Path) -> None:
    few = config(folder, "data.train_batch_size=16", "run.eval_questions=0", "data.train_max_samples=12")
    (problem,) = QuestionFiles(few).problems
    assert "has 12 questions (data.train_max_samples leaves so many of 20)" in problem


def test_a_batch_of_generation_counts_where_verl_draws_by_it(folder: Path) -> None:
    given = ["data.train_batch_size=16", "run.eval_questions=0", "data.gen_batch_size=32"]
    assert "data.gen_batch_size is 32" in QuestionFiles(config(folder, *given)).problems[0]
    one_at_a_time = config(folder, *given, "trainer.v1.trainer_mode=colocate_async")
    assert QuestionFiles(one_at_a_time).problems == []


def test_after_the_data_stage_the_files_are_counted(folder: Path) -> None:
    with pytest.raises(
        RunError, match=r"train_batch_size is 64, but .*has 20 questions.*; run\.eval_questions is 9"
    ):
        check_prepared(config(folder, "data.train_batch_size=64", "run.eval_questions=9"), DataFolder(folder))


def test_faulty_rows_stop_the_plan(folder: Path) -> None:
    table = pq.read_table(folder / "train.parquet").to_pylist()
    for row in table:
        row["reference"]["answers"] = ["rome"]
    pq.write_table(pa.Table.from_pylist(table), folder / "train.parquet")
    problems = make_plan(config(folder, "run.eval_questions=5")).problems
    assert any(
        "train.parquet, row 0 ('q0'): reference.answers[0] is the text 'rome'" in text for text in problems
    )
    assert any("20 faults in all" in text for text in problems)


def test_an_agent_that_reads_needs_documents(folder: Path) -> None:
    given = ["data.train_batch_size=4", "run.eval_questions=5"]
    problems = QuestionFiles(config(folder, *given, recipe="memagent")).problems
    assert [text.partition(":")[0] for text in problems] == [
        f"{folder}/{split}.parquet" for split in ("train", "validation")
    ]
    assert all("no task.document: the agent reads documents" in text for text in problems)
    for split, count in (("train", 4), ("validation", 5)):
        write(folder, split, count, document="A long text.")
    assert QuestionFiles(config(folder, *given, recipe="memagent")).problems == []


def test_a_task_without_documents_is_named_for_an_agent_that_reads() -> None:
    problems = QuestionFiles(config(None, "agent.name=chunk_memory")).problems
    assert problems == [
        "agent.name is chunk_memory, which reads documents, and task=world has none: choose task=reading, or task=parquet with a "
        "folder of `mempo data long-context`"
    ]


def test_held_out_questions_that_are_trained_on_are_noted(folder: Path) -> None:
    write(folder, "validation", 5, question="Who is train {n}?")
    found = QuestionFiles(config(folder, "run.eval_questions=5"))
    assert found.problems == []
    assert found.notes == [
        "5 of 5 held-out questions are trained on too (the first: 'q0'): the evaluation will count what was learned by heart"
    ]


@pytest.mark.parametrize("value", ["abc", "null", "2.5", "true", "-1"])
@pytest.mark.parametrize("key", ["data.train_batch_size", "run.eval_questions", "task.train"])
def test_nonsense_is_left_to_the_check_of_the_keys(key: str, value: str) -> None:
    assert isinstance(QuestionFiles(config(None, f"{key}={value}")).problems, list)
