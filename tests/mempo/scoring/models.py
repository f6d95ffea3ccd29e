"""Small random models, and probes of random trajectories."""

from __future__ import annotations

import numpy as np
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from mempo.probe import Probe

VOCABULARY = 97
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "initializer_range": 0.3,  # opinions: near-uniform log-probs would hide a wrong context
}


def build_model(name, tied=False, heads=4, kv_heads=2):
    config, kind = {
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
        "qwen3": (Qwen3Config, Qwen3ForCausalLM),  # normalises queries and keys
        "llama": (LlamaConfig, LlamaForCausalLM),
    }[name]
    torch.manual_seed(0)
    return kind(
        config(
            **SIZES,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=8,
            tie_word_embeddings=tied,
            attn_implementation="sdpa",
        )
    ).eval()


def random_ids(random, count):
    return [int(token) for token in random.integers(0, VOCABULARY, count)]


def trajectory_probes(
    random, turns=4, turn=30, memory=9, answer=3, prompt=12, missing=(), empty_observations=()
):
    """As `plan_probes` lays them out: memory and history of every turn from the second on that has a memory."""
    first, opening = random_ids(random, prompt), random_ids(random, 2)
    text = random_ids(random, answer + 4)
    mask = [0, 0, *[1] * answer, 0, 0]
    history, probes = list(first), []
    for index in range(turns):
        written = random_ids(random, memory + 5)
        if index and index not in missing:
            probes += [
                Probe(first + opening + written[:memory], text, mask),
                Probe(history + opening, text, mask),
            ]
        history += opening + written + random_ids(random, 0 if index in empty_observations else turn)
    return probes


def generator(seed=0):
    return np.random.default_rng(seed)


def one_by_one(model, probes):
    """Each probe in a forward of its own, through the model as it is."""
    found = []
    for trajectory in probes:
        values = []
        for probe in trajectory:
            ids = torch.tensor([probe.context_ids + probe.probe_ids])
            with torch.no_grad():
                logprobs = model(input_ids=ids).logits[0].float().log_softmax(-1)
            places = len(probe.context_ids) + torch.tensor(probe.answer_mask).nonzero()[:, 0]
            values.append(logprobs[places - 1, ids[0, places]])
        found.append(values)
    return found


def assert_same(found, expected, tolerance=1e-4):
    assert [len(values) for values in found] == [len(values) for values in expected]
    for ones, others in zip(found, expected, strict=True):
        for one, other in zip(ones, others, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=tolerance)
