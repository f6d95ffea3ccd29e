"""A world folder: complete, cached by content, and good for the agent's tokens and the search index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mempo.tokens import ChatTokens
from tools.data.manifest import changed_outputs
from tools.data.schema import read_rows
from tools.search.corpus import read_corpus
from tools.search.index import bm25_index
from tools.world.build import build_world
from tools.world.cache import MARKER, build_once
from tools.world.model import ModelShape
from tools.world.settings import WorldSettings
from tools.world.tokenizer import train_tokenizer
from tools.world.vocabulary import vocabulary_texts

SMALL = WorldSettings(
    counts={"person": 40, "film": 30, "novel": 30, "town": 20, "company": 20},
    train=60,
    validation=30,
    shape=ModelShape(layers=1, hidden=32, heads=1, kv_heads=1, intermediate=32),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_world(tmp_path_factory.mktemp("world") / "world", SMALL)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(vocabulary_texts())


def test_the_folder_is_complete_and_its_manifest_fits(folder: Path) -> None:
    assert changed_outputs(folder) == []
    train, validation = read_rows(folder / "train.parquet"), read_rows(folder / "validation.parquet")
    assert (len(train), len(validation)) == (60, 30)
    assert not {row.task.question for row in train} & {row.task.question for row in validation}


def test_supporting_titles_are_pages_of_the_corpus(folder: Path) -> None:
    titles = {document.title for document in read_corpus(folder / "corpus.jsonl")}
    assert all(set(row.reference.supporting) <= titles for row in read_rows(folder / "train.parquet"))


def test_the_exact_page_ranks_first_also_for_shared_names(folder: Path) -> None:
    documents = read_corpus(folder / "corpus.jsonl")
    index = bm25_index(documents)
    for document in documents:
        kind = document.text.split(".")[0].removeprefix("A ")
        name = document.title.removesuffix(f" ({kind})")
        assert index.search(f"{kind} {name}", 3)[0].document == document


def test_the_model_folder_loads(folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder / "model")
    loaded = AutoTokenizer.from_pretrained(folder / "model")
    assert model.config.vocab_size >= len(loaded)
    assert model.config.eos_token_id == ChatTokens(loaded).turn_end_id


def test_the_same_settings_build_nothing_anew_and_others_do(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "cached"
    calls = []

    def write(target: Path) -> None:
        calls.append(target)
        (target / "file").write_text("x")

    for settings in ({"a": 1}, {"a": 1}, {"a": 2}):
        build_once(out, settings, [], write)
    assert len(calls) == 2
    assert json.loads((out / MARKER).read_text())["hash"]


def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(FileExistsError, match="not built here"):
        build_once(tmp_path, {}, [], lambda folder: None)


def test_what_was_added_to_a_built_folder_is_not_lost_with_it(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "file").write_text("x")

    out = build_once(tmp_path / "out", {"a": 1}, ["tools/world"], write)
    with pytest.raises(FileExistsError, match=r"built by another command \(tools/world\)"):
        build_once(out, {"a": 1}, ["tools/sft"], write)
    for name, text in (("notes", "mine"), ("file", "longer")):
        before = (out / name).read_text() if (out / name).exists() else None
        (out / name).write_text(text)
        with pytest.raises(FileExistsError, match=f"out/{name} was added or changed"):
            build_once(out, {"a": 2}, ["tools/world"], write)
        assert (out / name).read_text() == text
        if before is None:
            (out / name).unlink()
        else:
            (out / name).write_text(before)
    build_once(out, {"a": 2}, ["tools/world"], write)


def test_a_folder_of_an_earlier_version_is_built_anew(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / MARKER).write_text('{"hash": "1"}')
    build_once(tmp_path, {}, ["tools/world"], lambda folder: None)
    assert [path.name for path in tmp_path.iterdir()] == [MARKER]


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        build_once(tmp_path / "out", {}, [], fail)
    assert list(tmp_path.iterdir()) == []


def test_every_name_word_is_one_token_with_and_without_its_space(tokenizer: Any) -> None:
    from tools.world.names import POOLS

    words = {word for pools in POOLS.values() for pool in pools for word in pool}
    long = [text for word in words for text in (word, f" {word}") if len(tokenizer.encode(text)) != 1]
    assert long == []


def test_pieces_put_together_equal_one_render_of_the_template(tokenizer: Any) -> None:
    tokens = ChatTokens(tokenizer)
    turn = "<mem>\nNeed the seat.\n</mem>\n<think>\nSearch.\n</think>\n<search>\ntown Port Dahl\n</search>"
    messages = [
        {"role": "system", "content": "Answer by searching."},
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": turn},
        {"role": "tool", "content": "(1) Port Dahl\nA town."},
    ]
    ids = tokens.first_prompt("Answer by searching.", "Who?") + tokens.generation_prompt_ids
    ids += tokens.encode_own(turn) + tokens.observation("(1) Port Dahl\nA town.", ended=False)
    assert ids == tokenizer.encode(tokenizer.apply_chat_template(messages, tokenize=False))


def test_a_head_dimension_that_vllm_rejects_is_rejected_here() -> None:
    with pytest.raises(ValueError, match="head dimension"):
        ModelShape(hidden=64, heads=4)
