"""One FSDP2 rank that saves tiny models as verl does: `python -m tests.tools.release.shard_rank FOLDER VARIANT ...`.

RANK, WORLD_SIZE and MASTER_* come from the environment. Rank 0 also writes `whole.pt`, the weights before sharding.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

RANK_R, ALPHA = 3, 12
VARIANTS = ("tied-fp32", "untied-fp32", "tied-bf16", "untied-bf16", "lora-fp32", "lora-bf16")


def tiny_config(*, tied: bool) -> Any:
    from transformers import Qwen2Config

    from tests.verl_patches.tiny import tiny_tokenizer

    tokenizer = tiny_tokenizer()
    return Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,  # two heads of 32: vLLM's CPU attention refuses smaller ones
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        initializer_range=0.3,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        architectures=["Qwen2ForCausalLM"],
    )


def tiny_model(variant: str) -> Any:
    """Random weights, LoRA with an effect."""
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2ForCausalLM

    kind, dtype = variant.split("-")
    torch.manual_seed(VARIANTS.index(variant))
    model: Any = Qwen2ForCausalLM(tiny_config(tied=kind == "tied"))
    if kind == "lora":
        settings = LoraConfig(
            r=RANK_R, lora_alpha=ALPHA, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM"
        )
        model = get_peft_model(model, settings)
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.3)
    return model.to(torch.bfloat16 if dtype == "bf16" else torch.float32)


def save(folder: Path, variant: str) -> None:
    """Shards over all ranks of the default process group, in the layout of verl's checkpoint manager."""
    rank, world = dist.get_rank(), dist.get_world_size()
    actor = folder / variant / "checkpoints" / "global_step_2" / "actor"
    actor.mkdir(parents=True, exist_ok=True)
    model = tiny_model(variant)
    if rank == 0:
        torch.save(model.state_dict(), folder / variant / "whole.pt")
        (actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": world}))
        if variant.startswith("lora"):
            meta = {"r": RANK_R, "lora_alpha": ALPHA, "task_type": "CAUSAL_LM"}
            (actor / "lora_train_meta.json").write_text(json.dumps(meta))
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",))
    layers = (model.base_model.model if variant.startswith("lora") else model).model.layers
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    torch.save(model.state_dict(), actor / f"model_world_size_{world}_rank_{rank}.pt")


if __name__ == "__main__":
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    for each in sys.argv[2:]:
        save(Path(sys.argv[1]), each)
    dist.destroy_process_group()
