"""An untrained Qwen model small enough for a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelShape:
    """Sizes of the model. `hidden / heads` is the head dimension: vLLM's CPU attention wants 32 or more."""

    layers: int = 2
    hidden: int = 128
    heads: int = 4
    kv_heads: int = 4
    intermediate: int = 256
    positions: int = 2048
    rope_theta: float = 1_000_000.0

    def __post_init__(self) -> None:
        if self.hidden % self.heads or self.hidden // self.heads < 32:
            raise ValueError(
                f"hidden {self.hidden} over {self.heads} heads: the head dimension must be whole and at least 32"
            )


def make_model(tokenizer: Any, shape: ModelShape, seed: int) -> Any:
    """A `Qwen3ForCausalLM` with random weights, fp32."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    vocabulary = -(-len(tokenizer) // 64) * 64  # padded to a multiple of 64, as Qwen does
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.hidden // shape.heads,
        max_position_embeddings=shape.positions,
        rope_theta=shape.rope_theta,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config).float()
