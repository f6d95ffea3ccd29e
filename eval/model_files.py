"""A model folder: what identifies it, and how much it needs of a server."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

from eval.errors import EvalError
from mempo.stop_ids import GENERATION, MODEL

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

    It knows its folder (`name_or_path`), from which `mempo.stop_ids` reads where the model ends its turns; a name on the hub
    becomes its folder in the cache.

    Raises:
        EvalError: if there is none.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        if not Path(source).is_dir():
            tokenizer.name_or_path = _cached_folder(source)
        return tokenizer
    except (OSError, ValueError) as error:
        raise EvalError(f"no tokenizer at {source!r} ({error}); name its folder with --tokenizer") from error


def _cached_folder(name: str) -> str:
    """The folder in the Hugging Face cache that holds a model's settings; its name where they are not to be had."""
    from transformers.utils import cached_file

    for file in (GENERATION, MODEL):
        with suppress(OSError):  # no such file in the model, or offline and not in the cache
            return str(Path(str(cached_file(name, file))).parent)
    return name
