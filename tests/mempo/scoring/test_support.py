"""Models that attend otherwise than the tree are refused, with the reason."""

import pytest
import torch
from transformers import Gemma2Config, GptOssConfig, LlamaConfig, MistralConfig, Qwen2Config, Qwen2VLConfig

from mempo.scoring.attention import TreeAttention, tree_attention_forward
from mempo.scoring.scorer import TreeScorer
from mempo.scoring.support import tree_refusal
from tests.mempo.scoring.models import build_model


@pytest.mark.parametrize(
    ("config", "code", "reason"),
    [
        (
            Qwen2Config(use_sliding_window=True, sliding_window=16, max_window_layers=1),
            "layer_types",
            "sliding",
        ),
        (MistralConfig(sliding_window=16), "layer_types", "sliding"),
        (Gemma2Config(), "layer_types", "sliding"),
        (Gemma2Config(layer_types=["full_attention"] * 26), "softcap", "caps"),
        (GptOssConfig(layer_types=["full_attention"] * 36), "sinks", "sink"),
        (Qwen2VLConfig(), "multimodal", "several models"),
        (
            LlamaConfig(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}),
            "rope",
            "length",
        ),
    ],
)
def test_refused(config, code, reason):
    refusal = tree_refusal(config)
    assert refusal is not None and refusal.code == code and reason in refusal.reason


@pytest.mark.parametrize(
    "config",
    [Qwen2Config(), LlamaConfig(), MistralConfig(sliding_window=None)],
    ids=lambda config: config.model_type,
)
def test_taken(config):
    assert tree_refusal(config) is None


def test_the_scorer_of_a_refused_model_says_why():
    model = build_model("qwen2")
    model.config.layer_types = ["sliding_attention", "full_attention"]
    with pytest.raises(ValueError, match="sliding_attention"):
        TreeScorer(model, 100)


def test_attention_that_asks_for_more_is_an_error():
    states = torch.zeros(1, 1, 1, 8)
    layer = torch.nn.Identity()
    tree = TreeAttention((), torch.device("cpu"))
    with pytest.raises(ValueError, match="softcap"):
        tree_attention_forward(layer, states, states, states, None, tree=tree, softcap=30.0)
    with pytest.raises(ValueError, match="a mask"):
        tree_attention_forward(layer, states, states, states, torch.ones(1), tree=tree)
    with pytest.raises(ValueError, match="does not pass"):
        tree_attention_forward(layer, states, states, states, None)
