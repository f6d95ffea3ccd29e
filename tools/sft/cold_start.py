"""The cold start: rows by rule from known supporting facts, then SFT; built once per content."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mempo.tokens import ChatTokens
from tools.hashing import file_sha256
from tools.sft.examples import Example, encode_row
from tools.sft.oracle import write_oracle
from tools.sft.rows import read_sft_rows
from tools.sft.settings import SftSettings
from tools.sft.train import Report, TrainSettings, train
from tools.world.cache import build_once, content_hash

CODE = (
    "tools/sft",
    "tools/world",
    "tools/search/analyzer.py",
    "tools/search/bm25.py",
    "tools/search/index.py",
    "tools/search/titles.py",
    "mempo/prompts.py",
    "mempo/probe.py",
    "mempo/tokens.py",
)
STATS = "sft.json"


def cold_start(
    data_dir: Path,
    model_in: Path,
    model_out: Path,
    settings: SftSettings,
    seed: int,
    report: Report = lambda done, total, loss: None,
) -> Path:
    """Writes `data_dir/sft.parquet` and trains `model_in` on it into `model_out`, unless both are there already.

    Raises:
        ValueError: the data have no supporting facts, or training diverges.
    """
    rows = data_dir / "sft.parquet"
    _refresh_rows(data_dir, rows, settings, seed)
    return train_folder(rows, model_in, model_out, settings.train, seed, report)


def train_folder(
    rows: Path, model_in: Path, model_out: Path, settings: TrainSettings, seed: int, report: Report
) -> Path:
    """SFT of a Hugging Face folder on an `sft.parquet`; `model_out` gets the model, its tokenizer and sft.json."""
    inputs = {
        "rows": file_sha256(rows),
        "model": {path.name: file_sha256(path) for path in sorted(model_in.iterdir()) if path.is_file()},
        "settings": asdict(settings),
        "seed": seed,
    }
    return build_once(
        model_out, inputs, CODE, lambda folder: _train(rows, model_in, folder, settings, seed, report)
    )


def _train(
    rows: Path, model_in: Path, folder: Path, settings: TrainSettings, seed: int, report: Report
) -> None:
    train_examples(
        lambda tokens: [encode_row(tokens, row) for row in read_sft_rows(rows)],
        model_in,
        folder,
        settings,
        seed,
        report,
    )


def train_examples(
    encode: Callable[[ChatTokens], Sequence[Example]],
    model_in: Path,
    folder: Path,
    settings: TrainSettings,
    seed: int,
    report: Report,
) -> None:
    """SFT of a Hugging Face folder on examples; `folder` gets the model, its tokenizer and sft.json.

    Args:
        encode: makes the examples with the model's tokenizer; those longer than the model's positions are left out and
            counted.

    Raises:
        ValueError: no example is left, or training diverges.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(model_in)
    model: Any = AutoModelForCausalLM.from_pretrained(
        model_in, dtype=torch.float32, attn_implementation="sdpa"
    )
    tokens = ChatTokens(tokenizer)
    encoded = encode(tokens)
    longest = int(model.config.max_position_embeddings)
    examples = [example for example in encoded if len(example.ids) <= longest]
    loss = train(model, tokens, examples, settings, seed, report)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    stats = {
        "examples": len(examples),
        "too_long": len(encoded) - len(examples),
        "trained_tokens": sum(sum(example.mask) for example in examples),
        "loss": loss,
    }
    (folder / STATS).write_text(json.dumps(stats, indent=2) + "\n", encoding="utf-8")


def _refresh_rows(data_dir: Path, rows: Path, settings: SftSettings, seed: int) -> None:
    marker = rows.with_suffix(".json")
    sources = {
        name: file_sha256(data_dir / name)
        for name in ("manifest.json", "supporting.jsonl", "corpus.jsonl")
        if (data_dir / name).is_file()
    }
    key = content_hash({"settings": asdict(settings.oracle), "seed": seed, "sources": sources}, CODE)
    if rows.is_file() and marker.is_file() and json.loads(marker.read_text(encoding="utf-8"))["hash"] == key:
        return
    count = write_oracle(data_dir, rows, settings.oracle, seed)
    marker.write_text(json.dumps({"hash": key, "rows": count}) + "\n", encoding="utf-8")
