"""Documents of the world: readable in one pass, of the chunks asked for, the same for the same seed."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from mempo.tokens import ChatTokens
from tools.data.schema import QuestionRow, read_rows
from tools.sft.reading_oracle import reading_examples
from tools.world.reading import UNKNOWN, ReadingSettings, build_reading_world

SETTINGS = ReadingSettings(seed=3, train=40, validation=10)
AGENT = {
    "name": "chunk_memory",
    "prompt": "brief",
    "context": "rewritten",
    "max_turns": 5,
    "max_response_tokens": 24,
    "max_observation_tokens": SETTINGS.chunk_tokens,
    "max_context_tokens": 256,
    "max_question_tokens": 32,
    "max_answer_tokens": 16,
    "verifier": "boxed_em",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_reading_world(tmp_path_factory.mktemp("reading") / "world", SETTINGS)


@pytest.fixture(scope="module")
def tokens(folder: Path) -> ChatTokens:
    return ChatTokens(AutoTokenizer.from_pretrained(folder / "model"))


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[QuestionRow]:
    return [row for split in ("train", "validation") for row in read_rows(folder / f"{split}.parquet")]


def test_documents_have_two_to_four_chunks(rows: list[QuestionRow], tokens: ChatTokens) -> None:
    counts = Counter(len(tokens.chunks(row.task.document, SETTINGS.chunk_tokens)) for row in rows)
    assert set(counts) == {2, 3, 4}
    assert len({row.task.question for row in rows}) == len(rows) == 50


def test_the_answer_can_be_read_off_in_one_pass(rows: list[QuestionRow], tokens: ChatTokens) -> None:
    for row in rows:
        chunks = [tokens.decode(ids) for ids in tokens.chunks(row.task.document, SETTINGS.chunk_tokens)]
        places = []
        for title in row.reference.supporting:
            name = title.partition(" (")[0]
            page = re.compile(rf": \w+ {re.escape(name)} ")  # the first entry of its page
            places += [place for place, chunk in enumerate(chunks) if page.search(chunk)][:1]
        assert len(places) == row.hops
        assert places == sorted(places)
        assert row.reference.answers[0][0] in row.task.document


def test_the_same_seed_gives_the_same_files(folder: Path, tmp_path: Path) -> None:
    again = build_reading_world(tmp_path / "again", SETTINGS)
    for name in ("train.parquet", "validation.parquet", "manifest.json"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("forgetful", [0.0, 1.0])
def test_demonstrations_are_the_agents_own_rows(tokens: ChatTokens, forgetful: float) -> None:
    examples = list(reading_examples(tokens, AGENT, SETTINGS, demonstrations=30, forgetful=forgetful, seed=1))
    texts = [tokens.decode(example.ids) for example in examples]
    finals = [text for text in texts if "\\boxed{" in text]
    assert len(finals) == 30
    lost = sum(UNKNOWN in text.rpartition("\\boxed")[2] for text in finals)
    assert (lost == 0) if not forgetful else (0 < lost <= 30)
    for example, text in zip(examples, texts, strict=True):
        trained = tokens.decode([i for i, mask in zip(example.ids, example.mask, strict=True) if mask])
        assert text.endswith(trained)
        assert trained.startswith(("Known: ", "\\boxed{"))
        assert example.ids[-1] == tokens.turn_end_id
