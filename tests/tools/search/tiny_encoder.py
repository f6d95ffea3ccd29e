"""A random BERT of a few thousand numbers, saved as an encoder folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

NAMES = ["ann", "lee", "port", "vale", "stone", "harbor", "query", "passage", ":"]
WORDS = [*NAMES, "film", "town", "ship", "sings", "director", "a", "is", "the", "who", "of"]
DIMENSION = 16
POSITIONS = 24


def save_encoder(
    folder: Path,
    pooling: str | None = "mean_tokens",
    normalize: bool = True,
    seed: int = 0,
    max_seq_length: int | None = None,
    **config: Any,
) -> Path:
    """Writes an encoder with sentence-transformers' files, or a plain Hugging Face folder if `pooling` is None."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: n for n, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    shape = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=DIMENSION,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=POSITIONS,
        initializer_range=0.3,  # else all texts look alike
        **config,
    )
    BertModel(shape).eval().save_pretrained(folder)
    if max_seq_length is not None:
        write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_seq_length})
    if pooling is not None:
        kinds = ["", "1_Pooling", "2_Normalize"][: 3 if normalize else 2]
        names = ("Transformer", "Pooling", "Normalize")
        write_json(
            folder / "modules.json",
            [
                {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{names[n]}"}
                for n, path in enumerate(kinds)
            ],
        )
        modes = ("cls_token", "mean_tokens", "max_tokens")
        write_json(
            folder / "1_Pooling" / "config.json",
            {"word_embedding_dimension": DIMENSION}
            | {f"pooling_mode_{mode}": mode == pooling for mode in modes},
        )
    return folder


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
