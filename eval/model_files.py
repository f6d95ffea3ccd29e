"""A model folder: what identifies it, and how much it needs of a server."""

from __future__ import annotations

import hashlib
import json
from math import ceil
from pathlib import Path
from typing import Any

from eval.errors import EvalError

# Of a release: tells of its files, and how it was tested. The same weights tested again are the same model.
_ABOUT = "release.json"
_KINDS = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.model", "*.txt")


def model_settings(folder: Path) -> dict[str, Any]:
    """SHA-256 over weights, config and tokenizer: two checkpoints with one name are two models.

    Raises:
        EvalError: if the folder is not a Hugging Face model.
    """
    read_config(folder)
    files = sorted(
        {path for kind in _KINDS for path in folder.glob(kind) if path.is_file() and path.name != _ABOUT}
    )
    if not any(path.suffix in (".safetensors", ".bin") for path in files):
        raise EvalError(f"{folder} holds no weights (*.safetensors, *.bin)")
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return {"sha256": digest.hexdigest()}


def read_config(folder: Path) -> dict[str, Any]:
    """The folder's config.json."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise EvalError(f"{folder} is not a model folder: {error}") from error
    if not isinstance(config, dict):
        raise EvalError(f"{folder}/config.json holds no object")
    return config


def cache_gib(folder: Path, tokens: int) -> int:
    """GiB of fp32 key-value cache for `tokens` tokens, at least 1."""
    config = read_config(folder)
    heads = int(config.get("num_attention_heads", 1))
    size = int(config.get("head_dim") or config.get("hidden_size", 0) // heads)
    layers, kv_heads = (
        int(config.get("num_hidden_layers", 1)),
        int(config.get("num_key_value_heads") or heads),
    )
    return max(1, ceil(tokens * layers * kv_heads * size * 2 * 4 / 2**30))


def load_tokenizer(source: str) -> Any:
    """The tokenizer of a model folder or of a name in the local Hugging Face cache.

    Raises:
        EvalError: if there is none.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise EvalError(f"no tokenizer at {source!r} ({error}); name its folder with --tokenizer") from error
