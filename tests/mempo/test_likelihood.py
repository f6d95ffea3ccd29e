"""P under each likelihood rule, against hand-computed values."""

import math

import pytest
import torch

from mempo.likelihood import RULES, pair_probability

LOST_MEMORY, LOST_HISTORY = torch.tensor([-2.0]), torch.tensor([-0.3])


def test_independent_flips_the_sign_when_the_memory_lost_the_answer() -> None:
    pair = pair_probability(LOST_MEMORY, LOST_HISTORY, "independent")
    assert pair is not None
    assert pair.p_memory == 1.0  # nothing kept: exp(0 / 1e-8)
    assert pair.p_reference == pytest.approx(math.exp(-0.3), abs=1e-6)
    assert pair.p_memory - pair.p_reference == pytest.approx(0.2592, abs=1e-4)


def test_either_keeps_the_sign_when_the_memory_lost_the_answer() -> None:
    pair = pair_probability(LOST_MEMORY, LOST_HISTORY, "either")
    assert pair is not None
    assert pair.p_memory == pytest.approx(math.exp(-2.0))
    assert pair.p_reference == pytest.approx(math.exp(-0.3))
    assert pair.kept == 1


def test_both_hides_what_the_memory_lost_which_is_why_it_is_not_the_default() -> None:
    memory, history = torch.tensor([-0.1, -2.0]), torch.tensor([-0.1, -0.3])
    pair = pair_probability(memory, history, "both")
    assert pair is not None
    assert pair.kept == 1
    assert pair.p_memory - pair.p_reference == 0.0
    honest = pair_probability(memory, history, "either")
    assert honest is not None
    assert honest.p_memory < honest.p_reference


def test_rules_on_three_tokens() -> None:
    memory, history = torch.tensor([-0.2, -1.0, -3.0]), torch.tensor([-0.9, -0.4, -4.0])
    either = pair_probability(memory, history, "either")
    assert either is not None
    assert either.kept == 2
    assert either.p_memory == pytest.approx(math.exp(-0.6))
    assert either.p_reference == pytest.approx(math.exp(-0.65))
    everything = pair_probability(memory, history, "all")
    assert everything is not None
    assert everything.kept == 3
    assert everything.p_memory == pytest.approx(math.exp(-1.4))
    assert everything.p_reference == pytest.approx(math.exp(-5.3 / 3))
    independent = pair_probability(memory, history, "independent")
    assert independent is not None
    assert independent.p_memory == pytest.approx(math.exp(-0.2), abs=1e-6)
    assert independent.p_reference == pytest.approx(math.exp(-0.4), abs=1e-6)
    assert pair_probability(memory, history, "both") is None


@pytest.mark.parametrize("rule", ["either", "both"])
def test_no_kept_token_is_no_signal_and_not_certainty(rule: str) -> None:
    assert pair_probability(torch.tensor([-2.0, -3.0]), torch.tensor([-4.0, -1.0]), rule) is None


def test_the_threshold_is_strict() -> None:
    at = torch.tensor([math.log(0.5)], dtype=torch.float64)
    assert pair_probability(at, at, "either") is None


@pytest.mark.parametrize("rule", RULES)
def test_equal_sides_give_no_reward(rule: str) -> None:
    same = torch.tensor([-0.1, -0.2])
    pair = pair_probability(same, same, rule)
    assert pair is not None
    assert pair.p_memory == pair.p_reference


def test_unknown_rule_and_wrong_shapes_are_named() -> None:
    with pytest.raises(ValueError, match=r"memory.likelihood"):
        pair_probability(LOST_MEMORY, LOST_HISTORY, "neither")
    with pytest.raises(ValueError, match="shapes"):
        pair_probability(torch.zeros(2), torch.zeros(3), "all")
    with pytest.raises(ValueError, match="shapes"):
        pair_probability(torch.zeros(0), torch.zeros(0), "all")
