"""The tree gives the log-probs of one sequence per probe, on every kind of model that it takes."""

import random as shuffling

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mempo.probe import Probe
from mempo.scoring.scorer import TreeScorer
from mempo.scoring.sequences import SequenceScorer
from tests.mempo.scoring.models import assert_same, build_model, generator, one_by_one, trajectory_probes
from tests.mempo.scoring.test_tree import random_probes

CASES = {
    "usual": {},
    "turns without memory": {"missing": (1, 3), "turns": 5},
    "empty observations": {"empty_observations": (0, 1, 2)},
    "one-token answer": {"answer": 1},
    "two turns": {"turns": 2},
    "long memories": {"memory": 80, "turn": 3},
}


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("name", ["qwen2", "qwen3", "llama"])
def test_log_probs_are_those_of_one_sequence_per_probe(name, tied):
    model = build_model(name, tied)
    random = generator()
    probes = [trajectory_probes(random, **case) for case in CASES.values()] + [[]]
    probes.append(trajectory_probes(random, turns=25))  # very different lengths in one pack
    expected = one_by_one(model, probes)
    assert_same(TreeScorer(model, 100_000).answer_logprobs(probes), expected)
    assert_same(TreeScorer(model, 500).answer_logprobs(probes), expected)
    assert_same(SequenceScorer(model, 2_000).answer_logprobs(probes), expected)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 1)], ids=["every head its own", "one for all"])
def test_grouped_heads(heads, kv_heads):
    model = build_model("qwen2", heads=heads, kv_heads=kv_heads)
    probes = [trajectory_probes(generator())]
    assert_same(TreeScorer(model, 10_000).answer_logprobs(probes), one_by_one(model, probes))


def test_segments_too_long_for_a_mask(monkeypatch):
    monkeypatch.setattr("mempo.scoring.attention.MASKED_ROWS", 8)
    model = build_model("qwen3")
    probes = [trajectory_probes(generator(seed), memory=20) for seed in range(2)]
    assert_same(TreeScorer(model, 10_000).answer_logprobs(probes), one_by_one(model, probes))


def test_order_and_packing_change_no_score():
    model = build_model("qwen2")
    random = generator()
    probes = [trajectory_probes(random, turns=turns) for turns in (2, 7, 3, 5)]
    straight = TreeScorer(model, 100_000).answer_logprobs(probes)
    order = [2, 0, 3, 1]
    mixed = TreeScorer(model, 300).answer_logprobs([probes[index] for index in order])
    assert_same(mixed, [straight[index] for index in order])
    reversed_probes = [trajectory[::-1] for trajectory in probes]
    assert_same(
        TreeScorer(model, 1_000).answer_logprobs(reversed_probes), [values[::-1] for values in straight]
    )


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(random_probes(), min_size=1, max_size=3), st.integers(1, 60))
def test_any_tree(probes, budget):
    model = build_model("qwen3")
    shuffling.Random(0).shuffle(probes)
    assert_same(TreeScorer(model, budget).answer_logprobs(probes), one_by_one(model, probes))


def test_no_mask_grows_with_the_square_of_the_tokens(monkeypatch):
    """What is handed to the kernels stays a rectangle: a branch times its past, or a causal square without a mask."""
    largest = 0
    kernel = torch.nn.functional.scaled_dot_product_attention

    def watching(query, key, value, attn_mask=None, **options):
        nonlocal largest
        largest = max(largest, 0 if attn_mask is None else attn_mask.numel())
        return kernel(query, key, value, attn_mask=attn_mask, **options)

    monkeypatch.setattr("mempo.scoring.attention.scaled_dot_product_attention", watching)
    probes = [trajectory_probes(generator(), turns=20, turn=80)]
    tokens = max(len(probe) for probe in probes[0])
    TreeScorer(build_model("qwen2"), 10_000).answer_logprobs(probes)
    branch = max(len(probe.probe_ids) for probe in probes[0])
    assert 0 < largest <= 2 * branch * tokens < tokens * tokens / 20  # two query heads share a key head


def test_scoring_leaves_no_trace():
    model = build_model("qwen2").train()
    model.lm_head.eval()  # a part with a mode of its own
    modes = [part.training for part in model.modules()]
    TreeScorer(model, 1_000).answer_logprobs([trajectory_probes(generator())])
    assert [part.training for part in model.modules()] == modes
    assert model.config._attn_implementation == "sdpa"
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.is_grad_enabled()


def test_the_training_loss_is_the_same_with_and_without_scoring():
    ids = torch.tensor([trajectory_probes(generator())[1].context_ids])
    losses = []
    for scored in (False, True):
        model = build_model("qwen2").train()
        torch.manual_seed(1)
        if scored:
            TreeScorer(model, 1_000).answer_logprobs([trajectory_probes(generator())])
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        losses.append((loss.item(), [parameter.grad.clone() for parameter in model.parameters()]))
    assert losses[0][0] == losses[1][0]
    assert all(torch.equal(one, other) for one, other in zip(losses[0][1], losses[1][1], strict=True))


def test_a_failure_inside_leaves_no_trace_either():
    model = build_model("qwen2").train()
    with pytest.raises(IndexError):
        TreeScorer(model, 1_000).answer_logprobs([[Probe([1, 10_000], [1], [1])]])
    assert model.training and model.config._attn_implementation == "sdpa"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_flash_attention_gives_the_scores_of_the_masked_kernels():
    pytest.importorskip("flash_attn")
    from mempo.scoring.attention import TreeAttention
    from mempo.scoring.tree import build_tree

    tree = build_tree(trajectory_probes(generator(), turns=8))
    shape = (1, 4, len(tree), 32)
    torch.manual_seed(0)
    query, key, value = (
        torch.randn(1, heads, *shape[2:], device="cuda", dtype=torch.bfloat16) for heads in (4, 2, 2)
    )
    device = torch.device("cuda")
    torch.testing.assert_close(
        TreeAttention(tree.segments, device)(query, key, value, None),
        TreeAttention(tree.segments, device, flash=False)(query, key, value, None),
        rtol=2e-2,
        atol=2e-2,
    )
