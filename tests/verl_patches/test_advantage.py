"""Outcome advantages are verl's; ours come on top, on memory tokens only."""

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from mempo.credit import outcome_advantages
from verl_patches.advantage import RowAdvantage, advantage_mass, final_advantages, lone_sessions

verl_utils = pytest.importorskip("verl.trainer.ppo.v1.utils")


def verl_advantages(rewards, rows):
    """verl's own step over sessions with these rewards and row counts, all of one question: per row [L = 3]."""
    from verl.protocol import DataProto

    keys = [f"u_{session}_{row}" for session, count in enumerate(rows) for row in range(count)]
    mask, scores = torch.ones(len(keys), 3), torch.zeros(len(keys), 3)
    for position, key in enumerate(keys):
        scores[position, -1] = rewards[int(key.split("_")[1])]
    data = DataProto(
        batch=TensorDict({"response_mask": mask, "token_level_rewards": scores}, batch_size=len(keys)),
        non_tensor_batch={"uid": np.array(["u"] * len(keys), dtype=object)},
    )
    advantages = verl_utils.compute_advantage_for_multi_trajectories(data, keys, adv_estimator="grpo").batch[
        "advantages"
    ]
    return [
        RowAdvantage(key.rsplit("_", 1)[0], advantages[i], mask[i], [(0, 0, 2)]) for i, key in enumerate(keys)
    ]


def test_the_number_of_rows_does_not_change_the_normalisation():
    one_each = verl_advantages([1.0, 0.0, 0.0], [1, 1, 1])
    uneven = verl_advantages([1.0, 0.0, 0.0], [1, 4, 2])
    by_session = {row.session: row.outcome[0].item() for row in one_each}
    assert {row.session: row.outcome[0].item() for row in uneven} == by_session
    ours = outcome_advantages(torch.tensor([1.0, 0.0, 0.0]))
    assert list(by_session.values()) == ours.tolist()


def test_weight_zero_is_plain_grpo_bit_for_bit():
    rows = verl_advantages([1.0, 0.3, 0.7], [2, 1, 3])
    finals = final_advantages(rows, lone=set(), row_credit="share", memory={"u_0": {0: 5.0}}, weight=0.0)
    assert all(torch.equal(final, row.outcome) for final, row in zip(finals, rows, strict=True))


def test_memory_advantage_lies_on_memory_tokens_alone():
    rows = verl_advantages([1.0, 0.0], [1, 1])
    finals = final_advantages(rows, lone=set(), row_credit="share", memory={"u_0": {0: 2.0}}, weight=0.5)
    assert (finals[0] - rows[0].outcome).tolist() == [1.0, 1.0, 0.0]
    assert torch.equal(finals[1], rows[1].outcome)


def test_a_lone_survivor_gets_no_outcome_advantage_but_keeps_its_memory_credit():
    rows = verl_advantages([1.0], [1])
    assert rows[0].outcome[0] != 0, "verl trains on the raw reward here"
    lone = lone_sessions({"u_0": "u", "v_0": "v", "v_1": "v"})
    assert lone == {"u_0"}
    finals = final_advantages(rows, lone=lone, row_credit="share", memory={"u_0": {0: 2.0}}, weight=1.0)
    assert finals[0].tolist() == [2.0, 2.0, 0.0]


def test_split_divides_the_outcome_and_not_the_memory():
    rows = verl_advantages([1.0, 0.0], [2, 1])
    finals = final_advantages(rows, lone=set(), row_credit="split", memory={"u_0": {0: 1.0}}, weight=1.0)
    assert finals[0][2] == rows[0].outcome[2] / 2
    assert finals[0][0] == rows[0].outcome[0] / 2 + 1
    assert torch.equal(finals[2], rows[2].outcome)


def test_mass_counts_trained_tokens_only():
    row = RowAdvantage("u_0", torch.tensor([1.0, -1.0, 3.0]), torch.tensor([0, 1, 1]), [(0, 0, 2)])
    mass = advantage_mass([row], [row.outcome])
    assert (mass.total, mass.memory) == (4.0, 1.0)


def test_expanding_to_rows_before_normalising_would_change_the_answer():
    """Rewards 1, 0, 0 with 4, 1 and 2 rows: per trajectory the mean is 1/3, per row it would be 4/7."""
    rows = verl_advantages([1.0, 0.0, 0.0], [4, 1, 2])
    ours = {row.session: row.outcome[0].item() for row in rows}
    std = (((1 - 1 / 3) ** 2 + 2 * (1 / 3) ** 2) / 2) ** 0.5  # unbiased, over trajectories
    assert ours["u_0"] == pytest.approx((1 - 1 / 3) / (std + 1e-6), abs=1e-6)
    assert ours["u_1"] == ours["u_2"] == pytest.approx((0 - 1 / 3) / (std + 1e-6), abs=1e-6)
    expanded = outcome_advantages(torch.tensor([1.0] * 4 + [0.0] * 3))
    assert abs(expanded[0].item() - ours["u_0"]) > 0.3
    assert abs(expanded[-1].item() - ours["u_1"]) > 0.3


@pytest.mark.parametrize(
    ("credit", "first", "second"),
    # (1 - 1/2) / (sqrt(1/2) + 1e-6) = 0.7071058, whole or over 4 and 2 rows
    [("share", 0.7071058, -0.7071058), ("split", 0.1767764, -0.3535529)],
)
def test_split_and_share_by_hand(credit, first, second):
    rows = verl_advantages([1.0, 0.0], [4, 2])
    finals = final_advantages(rows, lone=set(), row_credit=credit, memory={}, weight=0.0)
    assert [final[0].item() for final in finals] == pytest.approx([first] * 4 + [second] * 2, abs=1e-6)
