"""The SFT loop: loss where it belongs, learning, and the same weights for the same seed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from mempo.tokens import ChatTokens
from tools.sft.cold_start import cold_start
from tools.sft.examples import Example, batches
from tools.sft.muon import orthogonalize
from tools.sft.oracle import OracleOutput
from tools.sft.rows import read_sft_rows
from tools.sft.settings import SftSettings
from tools.sft.train import TrainSettings, completion_loss, train
from tools.sft.world_oracle import OracleSettings
from tools.world.build import build_world
from tools.world.model import ModelShape, make_model
from tools.world.settings import WorldSettings
from tools.world.tokenizer import train_tokenizer
from tools.world.vocabulary import vocabulary_texts

SHAPE = ModelShape(layers=1, hidden=32, heads=1, kv_heads=1, intermediate=32)
COUNTS = {"person": 30, "film": 20, "novel": 20, "town": 15, "company": 15}


@pytest.fixture(scope="module")
def tokens() -> ChatTokens:
    return ChatTokens(train_tokenizer(vocabulary_texts()))


def _model(tokens: ChatTokens) -> Any:
    return make_model(tokens.tokenizer, SHAPE, 0)


def test_the_loss_is_the_mean_over_trained_tokens_whatever_the_padding(tokens: ChatTokens) -> None:
    model = _model(tokens)
    short, long = Example([5, 6, 7, 8], [0, 0, 1, 1]), Example([9, 10, 11, 12, 13, 14], [0, 0, 0, 0, 0, 1])
    with torch.no_grad():
        by_hand = []
        for example in (short, long):
            logs = torch.log_softmax(model(torch.tensor([example.ids])).logits[0].float(), -1)
            by_hand += [-logs[i - 1, t].item() for i, t in enumerate(example.ids) if example.mask[i]]
        assert completion_loss(model, [short, long]).item() == pytest.approx(sum(by_hand) / 3, abs=1e-5)


def test_training_lowers_the_loss_and_repeats_with_its_seed(tokens: ChatTokens) -> None:
    text = tokens.encode_own("The director is Olga Tarn. The seat is Port Dahl.")
    examples = [Example(text, [0, 0] + [1] * (len(text) - 2))] * 8
    settings = TrainSettings(steps=30, drill_steps=2, max_tokens=120, warmup_steps=2)
    seen: list[int] = []
    weights, losses = [], []
    for _ in range(2):
        model = _model(tokens)
        losses.append(
            train(model, tokens, examples, settings, 7, lambda done, total, loss: seen.append(done))
        )
        weights.append([weight.clone() for weight in model.parameters()])
    assert seen == 2 * list(range(1, 33))
    assert losses[0] == losses[1] < math.log(len(tokens.tokenizer)) - 1
    assert all(torch.equal(one, two) for one, two in zip(*weights, strict=True))


def test_batches_hold_every_example_once_and_keep_to_their_size() -> None:
    from random import Random

    examples = [Example([0] * length, [1] * length) for length in range(1, 60)]
    made = batches(examples, 100, Random(0))
    assert sorted(len(example.ids) for batch in made for example in batch) == list(range(1, 60))
    assert all(len(batch) == 1 or len(batch) * max(len(e.ids) for e in batch) <= 100 for batch in made)


def test_no_examples_is_an_error(tokens: ChatTokens) -> None:
    with pytest.raises(ValueError, match="no examples"):
        train(_model(tokens), tokens, [], TrainSettings(), 0)


@pytest.mark.parametrize("shape", [(8, 8), (16, 4), (4, 16)])
def test_orthogonalized_updates_have_singular_values_near_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalize(torch.randn(2, *shape)))
    assert values.min() > 0.3 and values.max() < 1.4


def test_a_cold_start_is_complete_and_built_once(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    data = build_world(tmp_path / "world", WorldSettings(counts=COUNTS, train=20, validation=10, shape=SHAPE))
    settings = SftSettings(
        oracle=OracleOutput(world=OracleSettings(demonstrations=6, counts=COUNTS)),
        train=TrainSettings(steps=2, drill_steps=1, max_tokens=512),
    )
    steps: list[int] = []

    def report(done: int, total: int, loss: float) -> None:
        steps.append(done)

    out = cold_start(data, data / "model", tmp_path / "cold", settings, 0, report)
    assert steps == [1, 2, 3]
    assert AutoModelForCausalLM.from_pretrained(out).config.vocab_size >= len(
        AutoTokenizer.from_pretrained(out)
    )
    rows = read_sft_rows(data / "sft.parquet")
    assert {row["context"] for row in rows} == {"window:1", "history"}
    assert all(row["train_last_only"] == (row["context"] != "history") for row in rows)
    cold_start(data, data / "model", tmp_path / "cold", settings, 0, report)
    assert steps == [1, 2, 3]
