"""The Hugging Face part of a release: weights, config, generation config, tokenizer with its chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.release.errors import ReleaseError
from tools.release.generation import read_generation_config
from tools.release.weights import expected_tensors

if TYPE_CHECKING:
    import torch

SHARD_SIZE = "5GB"
# safetensors' names of what torch calls otherwise.
KINDS = {"F32": "float32", "BF16": "bfloat16", "F16": "float16", "F64": "float64"}
# What transformers notes about how the tokenizer was loaded here; it says nothing about the tokenizer.
LOADED_HERE = ("is_local", "local_files_only", "name_or_path")


def read_model_config(folder: Path) -> Any:
    """The model's config, without the attention kernel that the training machine used.

    Raises:
        ReleaseError: there is none, or it is no causal language model's.
    """
    from transformers import AutoConfig

    if not (folder / "config.json").is_file():
        raise ReleaseError(f"{folder}/config.json is missing: the checkpoint is incomplete")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # of many classes of its own, for one field that is wrong
        raise ReleaseError(f"{folder}/config.json: {type(error).__name__}: {error}") from error
    config._attn_implementation = None
    return config


def build_model(config: Any, state: Mapping[str, torch.Tensor], dtype: str) -> Any:
    """A model of these weights in `dtype`, ready to compute."""
    import torch
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    kind = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    model = kind.from_pretrained(None, config=config, state_dict=dict(state), dtype=getattr(torch, dtype))
    return model.eval()


def write_model(folder: Path, model: Any, checkpoint: Path) -> dict[str, Any]:
    """Writes all that transformers and vLLM load; returns what it left out of the generation config, by name.

    Args:
        model: in the release's dtype.
        checkpoint: the Hugging Face folder of the checkpoint, with tokenizer and generation config.

    Raises:
        ReleaseError: the tokenizer cannot be loaded, or has no chat template, or the generation config is invalid.
    """
    generation, left_out = read_generation_config(checkpoint)
    if generation is not None:
        model.generation_config = generation
    model.save_pretrained(folder, max_shard_size=SHARD_SIZE)
    tokenizer = read_tokenizer(checkpoint)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    kept = {name: value for name, value in settings.items() if name not in LOADED_HERE}
    path.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for file in folder.iterdir():
        file.chmod(0o644)  # transformers writes weights that only their owner may read
    return left_out


def read_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder.

    Raises:
        ReleaseError: it cannot be loaded, or has no chat template.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # as above; the tokenizers library raises Exception itself
        raise ReleaseError(f"{folder}: the tokenizer cannot be loaded: {error}") from error
    if not tokenizer.chat_template:
        raise ReleaseError(f"{folder}: the tokenizer has no chat template, without which no agent can ask it")
    return tokenizer


def model_problems(folder: Path, dtype: str) -> list[str]:
    """What is wrong with the Hugging Face part of a release, each naming its file.

    Args:
        dtype: that the weights and the config must have.
    """
    try:
        config = read_model_config(folder)
        read_tokenizer(folder)
        shapes, alias_of = expected_tensors(config)
    except ReleaseError as error:
        return [str(error)]
    problems = []
    if not (folder / "generation_config.json").is_file():
        problems.append("generation_config.json is missing")
    if str(config.dtype).removeprefix("torch.") != dtype:
        problems.append(f"config.json says dtype {config.dtype}, the release is {dtype}")
    found = _headers(folder)
    where = {name: file for file, tensors in found.items() for name in tensors}
    kinds = {name: (kind, shape) for tensors in found.values() for name, (kind, shape) in tensors.items()}
    if set(kinds) <= set(shapes):  # some models are saved under other names than they compute with
        problems += [f"the weights lack {name}" for name in sorted(set(shapes) - set(kinds))]
        problems += [
            f"{where[name]}: {name} has the shape {shape}, config.json says {shapes[name]}"
            for name, (_, shape) in kinds.items()
            if shape != shapes[name]
        ]
    problems += [
        f"{where[name]}: {name} is {kind}, the release is {dtype}"
        for name, (kind, _) in kinds.items()
        if kind in KINDS.values() and kind != dtype
    ]
    problems += [
        f"{where[name]}: {name} is tied to {alias_of[name]} and stands beside it: transformers would not tie them"
        for name in kinds
        if name in alias_of and alias_of[name] in kinds
    ]
    return problems + _index_problems(folder, found)


def _headers(folder: Path) -> dict[str, dict[str, tuple[str, tuple[int, ...]]]]:
    """For each weights file its tensors: dtype and shape, read from the file's head."""
    from safetensors import safe_open

    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            found[path.name] = {
                name: (KINDS.get(part.get_dtype(), part.get_dtype()), tuple(part.get_shape()))
                for name, part in slices.items()
            }
    return found


def _index_problems(folder: Path, found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """An index must list every tensor of every weights file, and nothing else."""
    path = folder / "model.safetensors.index.json"
    if not path.is_file():
        return [] if set(found) == {"model.safetensors"} else ["model.safetensors.index.json is missing"]
    listed = json.loads(path.read_text(encoding="utf-8")).get("weight_map", {})
    held = {name: file for file, tensors in found.items() for name in tensors}
    odd = sorted({name for name in {*listed, *held} if listed.get(name) != held.get(name)})
    return [f"{path.name}: {odd[0]} is not in the file that it names"] if odd else []
