"""The weights of a checkpoint: whole, finite, tied as the config says, and cast once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.release.errors import ReleaseError
from tools.release.lora import has_adapters, merge_adapters

if TYPE_CHECKING:
    from pathlib import Path

    import torch

DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
AUTO = "auto"
LISTED = 5


@dataclass(frozen=True)
class Weights:
    """Weights as a model's `state_dict`, one name for each tied tensor.

    Attributes:
        saved_dtype: of the shards, before adapters were merged; the coarsest, if they have several.
        had_adapters: LoRA was merged into them.
    """

    state: dict[str, torch.Tensor]
    saved_dtype: str
    had_adapters: bool

    @property
    def parameters(self) -> int:
        """How many numbers, tied ones once."""
        return sum(tensor.numel() for tensor in self.state.values())

    def rounded_by(self, dtype: str) -> bool:
        """Whether a cast to `dtype` changes a dtype; merged adapters leave fp32 behind, whatever the shards were."""
        kinds = {str(tensor.dtype) for tensor in self.state.values() if tensor.is_floating_point()}
        return kinds != {f"torch.{dtype}"}


def load_weights(actor: Path, config: Any) -> Weights:
    """Merges the shards of a checkpoint and its adapters.

    Args:
        actor: the checkpoint's `actor` folder.
        config: of the Hugging Face model.

    Raises:
        ReleaseError: the shards are not whole, or do not fit the config's model; names file or tensor.
    """
    from verl_patches.merger import MergeError, merge_shards

    try:
        merged = merge_shards(actor)
    except MergeError as error:
        raise ReleaseError(str(error)) from error
    saved, adapted = _coarsest(merged), has_adapters(merged)
    if adapted:
        merged = merge_adapters(merged, config, actor)
    return Weights(fitted(merged, config, str(actor)), saved, adapted)


def fitted(state: Mapping[str, torch.Tensor], config: Any, where: str) -> dict[str, torch.Tensor]:
    """`state` with one name for each tied tensor, after a check that it is all of the config's model and no more.

    Raises:
        ReleaseError: tensors are missing, unexpected, of another shape or not finite, or tied ones differ.
    """
    import torch

    shapes, alias_of = expected_tensors(config)
    unexpected = sorted(set(state) - set(shapes) - set(alias_of))
    missing = sorted(
        name
        for name in shapes
        if name not in state and not any(alias in state for alias, first in alias_of.items() if first == name)
    )
    for kind, names in (("missing", missing), ("unexpected", unexpected)):
        if names:
            raise ReleaseError(
                f"{where}: {len(names)} tensors are {kind} for {config.architectures or config.model_type}: "
                f"{', '.join(names[:LISTED])}{', …' if len(names) > LISTED else ''}"
            )
    whole = {}
    for name, shape in shapes.items():
        twins = [
            each for each in (name, *(a for a, first in alias_of.items() if first == name)) if each in state
        ]
        tensor = state[twins[0]]
        if tuple(tensor.shape) != shape:
            raise ReleaseError(
                f"{where}: {twins[0]} has the shape {tuple(tensor.shape)}, the config says {shape}"
            )
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ReleaseError(
                f"{where}: {twins[0]} holds values that are not finite: release an earlier step"
            )
        for twin in twins[1:]:
            if not torch.equal(tensor, state[twin]):
                raise ReleaseError(
                    f"{where}: {twins[0]} and {twin} differ, but tie_word_embeddings is set in config.json: they were "
                    "trained apart; set it to false there"
                )
        whole[name] = tensor
    return whole


def expected_tensors(config: Any) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Shapes by name, and for every tied further name the first one; from the config alone, nothing is allocated.

    Raises:
        ReleaseError: the config's model is no language model that transformers knows.
    """
    import torch
    from transformers import AutoModelForCausalLM

    if getattr(config, "auto_map", None):
        raise ReleaseError("config.json names code of its own (auto_map): such models cannot be released")
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except ValueError as error:
        raise ReleaseError(f"config.json: no causal language model: {error}") from error
    model.tie_weights()
    first: dict[int, str] = {}
    alias_of: dict[str, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        known = first.setdefault(id(parameter), name)
        if known != name:
            alias_of[name] = known
    shapes = {
        name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if name not in alias_of
    }
    return shapes, alias_of


def target_dtype(weights: Weights, asked: str) -> str:
    """The name of the dtype to write: `float32` or `bfloat16`.

    Args:
        asked: `fp32`, `bf16`, or `auto` for that of the shards.

    Raises:
        ReleaseError: fp32 is asked for what has been through bf16, in the shards or before; or `asked` is unknown.
    """
    if asked not in (*DTYPES, AUTO):
        raise ReleaseError(f"--dtype is {asked!r}; write {AUTO}, {', '.join(DTYPES)}")
    remedy = "write --dtype bf16: fp32 would only look more exact than it is, at twice the size"
    rounded = weights.saved_dtype == "float32" and all_rounded(weights.state)
    if asked == "fp32" and weights.saved_dtype != "float32":
        raise ReleaseError(f"fp32 was asked for, but the shards are {weights.saved_dtype}: {remedy}")
    if asked == "fp32" and rounded:
        raise ReleaseError(
            f"fp32 was asked for, but every weight is a bf16 number: they have been through bf16; {remedy}"
        )
    if asked != AUTO:
        return DTYPES[asked]
    if rounded or weights.saved_dtype == "bfloat16":
        return "bfloat16"
    if weights.saved_dtype == "float32":
        return "float32"
    raise ReleaseError(f"the shards are {weights.saved_dtype}: say --dtype bf16")


def all_rounded(state: Mapping[str, torch.Tensor]) -> bool:
    """Whether fp32 weights all fit into bf16 without loss: the lower half of every number is empty."""
    import torch

    return all(
        not (tensor.contiguous().view(torch.int32) & 0xFFFF).any()
        for tensor in state.values()
        if tensor.dtype == torch.float32
    )


def cast(state: Mapping[str, torch.Tensor], dtype: str) -> dict[str, torch.Tensor]:
    """All floating-point tensors in `dtype`; the one rounding on the way from shards to release."""
    import torch

    kind = getattr(torch, dtype)
    return {name: tensor.to(kind) if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def _coarsest(state: Mapping[str, torch.Tensor]) -> str:
    import torch

    kinds = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    if not kinds:
        raise ReleaseError("the checkpoint holds no floating-point weights")
    return str(max(kinds, key=lambda kind: torch.finfo(kind).eps)).removeprefix("torch.")
