"""Mini-batches hold whole trajectories and have one shape on every rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_patches.minibatch import PADDING, plan_mini_batches


def cut_like_verl(layout, ranks, mini_batches):
    """verl chunks a batch over ranks and cuts each rank's rows into equal pieces: [mini-batch][rank] → rows."""
    per_rank = len(layout) // ranks
    shares = [layout[rank * per_rank : (rank + 1) * per_rank] for rank in range(ranks)]
    size = per_rank // mini_batches
    return [[share[step * size : (step + 1) * size] for share in shares] for step in range(mini_batches)]


@given(
    trajectories=st.lists(st.lists(st.integers(1, 500), min_size=1, max_size=5), min_size=1, max_size=30),
    per_step=st.integers(1, 12),
    ranks=st.integers(1, 4),
)
def test_every_row_once_and_every_trajectory_whole(trajectories, per_step, ranks):
    plan = plan_mini_batches(trajectories, per_step, ranks)
    total = sum(len(rows) for rows in trajectories)
    assert sorted(row for row in plan.layout if row != PADDING) == list(range(total))
    assert len(plan.layout) == ranks * plan.mini_batches * plan.rows_per_rank

    owner = [index for index, rows in enumerate(trajectories) for _ in rows]
    steps = cut_like_verl(plan.layout, ranks, plan.mini_batches)
    seen = [{owner[row] for share in step for row in share if row != PADDING} for step in steps]
    assert all(1 <= len(members) <= per_step for members in seen), "no step of padding alone, none too large"
    assert sum(len(members) for members in seen) == len(trajectories), "no trajectory lies in two steps"


def test_a_failed_session_does_not_make_another_step():
    assert plan_mini_batches([[10]] * 31, 16, 1).mini_batches == 2


def test_rows_go_to_the_rank_with_fewer_tokens():
    plan = plan_mini_batches([[100], [60], [50], [10]], 4, 2)
    assert plan.layout == [0, 3, 1, 2]


def test_one_row_on_two_ranks_is_padded():
    assert plan_mini_batches([[7]], 4, 2).layout == [0, PADDING]


@pytest.mark.parametrize("trajectories", [[], [[3], []]])
def test_nothing_to_train_on_is_refused(trajectories):
    with pytest.raises(ValueError, match="mini-batches"):
        plan_mini_batches(trajectories, 2, 1)
