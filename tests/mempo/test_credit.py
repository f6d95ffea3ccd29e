"""Advantages against hand-computed values."""

import math

import pytest
import torch

from mempo.credit import (
    CreditSettings,
    add_memory_advantage,
    memory_advantages,
    outcome_advantages,
    row_share,
)
from mempo.memory_scores import TurnScore


def scored(turn: int, reward: float) -> TurnScore:
    return TurnScore(turn, "scored", p_memory=reward, p_reference=0.0, kept=1)


FIRST = TurnScore(0, "first")


def test_pooled_baseline_over_every_turn_of_every_rollout() -> None:
    group = [
        [FIRST, scored(1, 0.1), scored(2, 0.3)],
        [FIRST, scored(1, 0.5)],
        [FIRST, TurnScore(1, "missing")],
    ]
    result = memory_advantages(group, [1.0, 0.0, 0.0], CreditSettings())
    std = 0.2 + 1e-6  # of 0.1, 0.3, 0.5, unbiased
    assert result.per_rollout[0] == pytest.approx({1: -0.2 / std, 2: 0.0})
    assert result.per_rollout[1] == pytest.approx({1: 0.2 / std})
    assert result.per_rollout[2] == {}
    assert not result.flat


def test_by_turn_baseline_needs_four_values_else_the_pool() -> None:
    seconds = [0.0, 0.2, 0.4, 0.6]
    group = [[FIRST, scored(1, value)] for value in seconds]
    group[0].append(scored(2, 1.0))
    result = memory_advantages(group, [1.0] * 4, CreditSettings(baseline="by_turn"))
    own_std = math.sqrt(sum((value - 0.3) ** 2 for value in seconds) / 3)
    assert [kept[1] for kept in result.per_rollout] == pytest.approx(
        [(value - 0.3) / (own_std + 1e-6) for value in seconds]
    )
    pool = [*seconds, 1.0]
    mean = sum(pool) / 5
    std = math.sqrt(sum((value - mean) ** 2 for value in pool) / 4)
    assert result.per_rollout[0][2] == pytest.approx((1.0 - mean) / (std + 1e-6))


@pytest.mark.parametrize("rewards", [[0.4], [0.4, 0.4, 0.4], [0.4, 0.4 + 1e-6]])
def test_one_value_or_equal_values_give_zeros_never_nan(rewards: list[float]) -> None:
    result = memory_advantages(
        [[scored(1, reward)] for reward in rewards], [1.0] * len(rewards), CreditSettings()
    )
    assert [kept[1] for kept in result.per_rollout] == [0.0] * len(rewards)
    assert result.flat


def test_nothing_scored_is_flat_and_empty() -> None:
    result = memory_advantages([[FIRST], []], [0.0, 0.0], CreditSettings())
    assert result.per_rollout == [{}, {}]
    assert result.flat


def test_gate_on_success_keeps_the_pool_and_silences_failures() -> None:
    group = [[scored(1, 0.0)], [scored(1, 1.0)]]
    always = memory_advantages(group, [1.0, 0.0], CreditSettings()).per_rollout
    gated = memory_advantages(group, [1.0, 0.0], CreditSettings(gate="on_success")).per_rollout
    assert gated[0] == always[0]
    assert gated[1] == {1: 0.0}


def test_gate_on_success_asks_for_a_positive_reward_not_for_every_objective() -> None:
    group = [[scored(1, value)] for value in (0.0, 0.4, 1.0)]
    always = memory_advantages(group, [2.0, 1.0, 0.0], CreditSettings())
    for rewards in ([2.0, 1.0, 0.0], [1.0, 0.5, 0.0]):  # one of two objectives right: task.reward sum, mean
        gated = memory_advantages(group, rewards, CreditSettings(gate="on_success")).per_rollout
        assert gated == [*always.per_rollout[:2], {1: 0.0}]
    assert 0.0 not in [kept[1] for kept in always.per_rollout]


@pytest.mark.parametrize(
    ("values", "rewards", "gate", "flat", "gated"),
    [
        ([0.0, 1.0], [0.0, 0.0], "always", False, False),
        ([0.0, 1.0], [0.0, 0.0], "on_success", False, True),
        ([0.0, 1.0], [0.0, 1.0], "on_success", False, False),
        ([0.0, 0.5, 1.0], [0.0, 1.0, 0.0], "on_success", False, True),  # what is left lies at the mean
        ([0.4, 0.4], [0.0, 0.0], "on_success", True, False),
        ([], [], "on_success", True, False),
    ],
)
def test_a_pool_that_the_gate_silenced_is_not_flat(
    values: list[float], rewards: list[float], gate: str, flat: bool, gated: bool
) -> None:
    result = memory_advantages([[scored(1, value)] for value in values], rewards, CreditSettings(gate=gate))
    assert (result.flat, result.gated) == (flat, gated)


def test_outcome_advantage_is_grpo_and_a_lone_survivor_gets_zero() -> None:
    advantages = outcome_advantages(torch.tensor([1.0, 0.0, 0.0]))
    std = math.sqrt(1 / 3) + 1e-6
    assert advantages.tolist() == pytest.approx([2 / 3 / std, -1 / 3 / std, -1 / 3 / std])
    assert outcome_advantages(torch.tensor([1.0])).tolist() == [0.0]
    assert outcome_advantages(torch.tensor([1.0, 1.0])).tolist() == [0.0, 0.0]


def test_memory_advantage_falls_on_memory_tokens_only_and_not_on_a_forced_prefix() -> None:
    outcome = torch.full((8,), 0.5)
    mask = torch.tensor([0, 1, 1, 1, 0, 1, 1, 1])
    result = add_memory_advantage(
        outcome, mask, [(0, 0, 2), (1, 5, 7), (2, 7, 8)], {0: 2.0, 1: -1.0}, weight=0.1
    )
    assert result.tolist() == pytest.approx([0.5, 0.7, 0.5, 0.5, 0.5, 0.4, 0.4, 0.5])
    assert outcome.tolist() == [0.5] * 8


def test_weight_zero_is_plain_grpo_bit_for_bit() -> None:
    outcome = torch.randn(6)
    result = add_memory_advantage(outcome, torch.ones(6), [(1, 0, 6)], {1: 3.0}, weight=0.0)
    assert torch.equal(result, outcome)
    assert not torch.equal(
        add_memory_advantage(outcome, torch.ones(6), [(1, 0, 6)], {1: 3.0}, weight=0.5), outcome
    )


def test_row_credit_share_and_split() -> None:
    assert row_share("share", 3) == 1.0
    assert row_share("split", 4) == 0.25
    with pytest.raises(ValueError, match=r"memory.row_credit"):
        row_share("all", 2)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"memory.baseline.*pooled, by_turn"):
        CreditSettings(baseline="none")
    with pytest.raises(ValueError, match=r"memory.gate"):
        CreditSettings(gate="sometimes")
