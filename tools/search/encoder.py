"""Text → vectors, with an encoder folder in the layout of sentence-transformers or of plain Hugging Face."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer

from tools.hashing import file_sha256

# Instruct models of the family want a task description instead of these prefixes.
_E5 = re.compile(r"^(?!.*instruct).*(?<![a-z0-9])e5(?![a-z0-9])", re.IGNORECASE)
_E5_PREFIXES = ("query: ", "passage: ")
_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
_MODULES = ("Transformer", "Pooling", "Normalize")


class EncoderError(ValueError):
    """An encoder cannot be loaded or gives no usable vectors; names the file, or the text by its number."""


class Encoder:
    """Turns queries and passages into vectors whose inner products rank them. Any number of threads may call it.

    - Pooling is what `1_Pooling/config.json` says (mean or cls); mean where the folder has no `modules.json`.
    - Vectors have length 1 if `modules.json` lists Normalize, if there is no `modules.json`, and for e5 models, which
      are trained on cosines.
    - e5 models (`e5` is a word of the folder's name or of `_name_or_path` in `config.json`, `instruct` is none) get the
      prefixes `query: ` and `passage: `; others get none. Give `query_prefix` and `passage_prefix` to change that.
    - Texts are cut to `max_seq_length` of `sentence_bert_config.json`, otherwise to the tokenizer's maximum, and never
      to more than the model has positions for.

    Weights are read from safetensors only, from local files only; no code of the folder is run.

    Attributes:
        name: the folder's name (the repository's name for a snapshot in the Hugging Face cache).
        dimension: length of a vector.
        max_tokens: what a text is cut to, special tokens included.
    """

    def __init__(
        self,
        folder: str | Path,
        device: str = "auto",
        batch_size: int = 64,
        max_tokens: int | None = None,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
    ) -> None:
        """Loads tokenizer and weights; `device` is a torch device, `auto` takes a GPU if there is one.

        Raises:
            EncoderError: the folder or a file of it is missing, or the model is of a kind that is not supported.
            ValueError: `batch_size` or `max_tokens` is too small.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, it must be at least 1")
        folder = Path(folder).resolve()
        modules = _read_modules(folder)
        self._transformer = folder / modules.get("Transformer", "")
        self.name = _name(folder)
        self.device = torch.device(
            ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        )
        self.batch_size = batch_size
        self._tokenizer, self._model = _load(self._transformer, self.device)
        self._tokenizer_lock = threading.Lock()  # it keeps the cut of the latest call
        origin = str(_read_object(self._transformer / "config.json").get("_name_or_path", ""))
        e5 = _E5.search(f"{self.name} {Path(origin).name}") is not None
        prefixes = _E5_PREFIXES if e5 else ("", "")
        self.query_prefix = prefixes[0] if query_prefix is None else query_prefix
        self.passage_prefix = prefixes[1] if passage_prefix is None else passage_prefix
        self.pooling = _read_pooling(folder / modules["Pooling"]) if "Pooling" in modules else "mean"
        self.normalize = not modules or "Normalize" in modules or e5
        self.max_tokens = self._cut(max_tokens)
        self.dimension = int(self._model.config.hidden_size)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What decides the vectors: name, SHA-256 of each weight file, pooling, prefixes and the rest. JSON-ready."""
        return {
            "name": self.name,
            "weights_sha256": {path.name: file_sha256(path) for path in _weights(self._transformer)},
            "dimension": self.dimension,
            "pooling": self.pooling,
            "normalize": self.normalize,
            "max_tokens": self.max_tokens,
            "query_prefix": self.query_prefix,
            "passage_prefix": self.passage_prefix,
        }

    def encode_queries(self, queries: Sequence[str]) -> npt.NDArray[np.float32]:
        """[n, d] vectors of n queries. Blank ones are allowed. Raises EncoderError for a vector that is not finite."""
        return self._encode([self.query_prefix + query for query in queries])

    def encode_passages(self, passages: Sequence[str]) -> npt.NDArray[np.float32]:
        """[n, d] vectors of n passages; otherwise like `encode_queries`."""
        return self._encode([self.passage_prefix + passage for passage in passages])

    def _cut(self, asked: int | None) -> int:
        if asked is None:
            asked = _read_object(self._transformer / "sentence_bert_config.json").get("max_seq_length")
        if asked is None:
            asked = self._tokenizer.model_max_length
        tokens = min(int(asked), _positions(self._model))
        special = self._tokenizer.num_special_tokens_to_add()
        if tokens <= special:
            raise ValueError(
                f"max_tokens is {tokens}, it must be above {special} (the special tokens of a text)"
            )
        return tokens

    def _tokenize(self, texts: list[str]) -> list[list[int]]:
        # A lone surrogate, which JSON can spell, is no character that a tokenizer accepts.
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        if not texts:
            return []
        with self._tokenizer_lock:
            return self._tokenizer(texts, truncation=True, max_length=self.max_tokens, verbose=False)[
                "input_ids"
            ]

    @torch.inference_mode()
    def _encode(self, texts: list[str]) -> npt.NDArray[np.float32]:
        tokens = self._tokenize(texts)
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        # Texts of like length share a batch, so that little is padded. A text without any token keeps a zero vector.
        order = sorted((n for n, ids in enumerate(tokens) if ids), key=lambda n: len(tokens[n]), reverse=True)
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            vectors[chosen] = self._forward([tokens[n] for n in chosen]).cpu().numpy()
        broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(broken):
            raise EncoderError(
                f"{self.name} gives NaN or infinity for {len(broken)} of {len(texts)} texts, first for text "
                f"{broken[0]} (counted from 0): {texts[broken[0]][:80]!r}; check the model's weights"
            )
        return vectors

    def _forward(self, tokens: list[list[int]]) -> torch.Tensor:
        """[b, d] float32 vectors of b texts, the longest first."""
        width = len(tokens[0])
        pad = self._tokenizer.pad_token_id or 0  # masked, so that its value does not matter
        ids = torch.tensor([row + [pad] * (width - len(row)) for row in tokens], device=self.device)
        lengths = torch.tensor([len(row) for row in tokens], device=self.device)
        mask = torch.arange(width, device=self.device) < lengths[:, None]
        states = self._model(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
        if self.pooling == "cls":
            vectors = states[:, 0]
        else:
            vectors = states.masked_fill(~mask[:, :, None], 0).sum(dim=1) / lengths[:, None]
        return torch.nn.functional.normalize(vectors, dim=1) if self.normalize else vectors


def _name(folder: Path) -> str:
    """`.../models--org--model/snapshots/<commit>` is how the Hugging Face cache lays models out."""
    return folder.parents[1].name.split("--")[-1] if folder.parent.name == "snapshots" else folder.name


def _read_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file; empty if there is no such file."""
    if not path.exists():
        return {}
    content = _read_json(path)
    if not isinstance(content, dict):
        raise EncoderError(f"{path}: a JSON object is expected; fetch the encoder anew")
    return content


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EncoderError(f"{path}: cannot be read ({error}); fetch the encoder anew") from error


def _read_modules(folder: Path) -> dict[str, str]:
    """Folder of each sentence-transformers module by its kind; empty for a plain Hugging Face folder."""
    if not folder.is_dir():
        raise EncoderError(f"{folder}: no such folder; give the folder of an encoder")
    path = folder / "modules.json"
    if not path.exists():
        return {}
    try:
        modules = {str(m["type"]).rpartition(".")[2]: str(m["path"]) for m in _read_json(path)}
    except (TypeError, KeyError) as error:
        raise EncoderError(f"{path}: a list of {{type, path}} is expected; fetch the encoder anew") from error
    if other := [kind for kind in modules if kind not in _MODULES]:
        raise EncoderError(
            f"{path}: module {other[0]} is not supported; take an encoder of {', '.join(_MODULES)}"
        )
    return modules


def _read_pooling(folder: Path) -> str:
    path = folder / "config.json"
    config = _read_object(path)
    modes = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise EncoderError(
            f"{path}: exactly one of {' and '.join(_POOLINGS)} must be true, got {modes or 'none'}"
        )
    return _POOLINGS[modes[0]]


def _weights(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def _load(folder: Path, device: torch.device) -> tuple[Any, Any]:
    """Tokenizer and model in float32 on a device."""
    if not _weights(folder):
        raise EncoderError(f"{folder}: no *.safetensors in it; convert the weights to safetensors")
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(folder, **local)
        tokenizer = AutoTokenizer.from_pretrained(folder, **local)
        model, report = AutoModel.from_pretrained(
            folder,
            config=config,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
            **local,
        )
    except (OSError, ValueError, KeyError) as error:
        raise EncoderError(f"{folder}: not an encoder that transformers loads: {error}") from error
    if config.is_encoder_decoder:
        raise EncoderError(
            f"{folder}: {config.model_type} has a decoder; take a model that is an encoder alone"
        )
    # transformers fills what a file lacks with random numbers. The pooler is not used here.
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise EncoderError(
            f"{folder}: the weights lack {len(missing)} tensors, e.g. {missing[0]}; fetch them anew"
        )
    return tokenizer, model.to(device).eval()


def _positions(model: Any) -> int:
    """Tokens that the model has positions for."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            # RoBERTa's kin count positions from behind the padding index.
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    return getattr(model.config, "max_position_embeddings", None) or 2**31
