"""LoRA adapters in a checkpoint, merged into the weights that they adapt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.release.errors import ReleaseError
from tools.release.source import read_json

if TYPE_CHECKING:
    import torch

META = "lora_train_meta.json"  # verl writes it beside the shards
PREFIX = "base_model.model."
A_MATRIX = ".lora_A."


def has_adapters(state: Mapping[str, Any]) -> bool:
    """Whether a checkpoint holds LoRA adapters."""
    return any("lora_" in name for name in state)


def merge_adapters(state: Mapping[str, torch.Tensor], config: Any, actor: Path) -> dict[str, torch.Tensor]:
    """Weights without adapters, W + alpha / r · B A, computed and returned in fp32 (which holds every bf16 exactly).

    Args:
        state: as PEFT names it (`base_model.model.…base_layer.weight`, `….lora_A.default.weight`).
        config: the base model's.
        actor: folder with `lora_train_meta.json`; rank and alpha stand nowhere else.

    Raises:
        ReleaseError: rank and alpha are unknown or do not fit, the base weights are missing, or tensors are left over.
    """
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    if not any(name.startswith(PREFIX) and "lora_" not in name for name in state):
        raise ReleaseError(
            f"{actor}: the shards hold adapters only; train with actor_rollout_ref.actor.checkpoint.save_lora_only="
            "False, so that a checkpoint is a whole model"
        )
    rank, alpha = _rank_and_alpha(actor)
    targets = sorted(name.removeprefix(PREFIX).partition(A_MATRIX)[0] for name in state if A_MATRIX in name)
    odd = [name for name, tensor in state.items() if A_MATRIX in name and tensor.shape[0] != rank]
    if odd:
        raise ReleaseError(f"{actor / META} says rank {rank}, but {odd[0]} has {state[odd[0]].shape[0]} rows")
    with torch.device("meta"):
        adapted = get_peft_model(
            AutoModelForCausalLM.from_config(config),
            LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets, task_type="CAUSAL_LM"),
        )
    whole = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    try:
        adapted.load_state_dict(whole, strict=True, assign=True)
    except RuntimeError as error:  # names every missing and every unexpected tensor
        raise ReleaseError(f"{actor}: adapters and base weights do not fit together: {error}") from error
    return dict(adapted.merge_and_unload().state_dict())


def _rank_and_alpha(actor: Path) -> tuple[int, int]:
    meta = read_json(actor / META) or {}
    try:
        rank, alpha = int(meta["r"]), int(meta["lora_alpha"])
    except (KeyError, TypeError, ValueError):
        rank = alpha = 0
    if rank < 1 or alpha < 1:
        raise ReleaseError(
            f"{actor / META} must tell the adapters' r and lora_alpha: without them their scale is unknown; verl "
            "writes it beside the shards, copy it along"
        )
    return rank, alpha
