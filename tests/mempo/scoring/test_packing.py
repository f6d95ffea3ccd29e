"""Which trajectories share a forward, and which rank runs it."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mempo.probe import Probe
from mempo.scoring.packing import deal, divide, schedule
from tests.mempo.scoring.models import generator, trajectory_probes


def test_packs_keep_to_the_budget_and_a_larger_trajectory_runs_alone():
    random = generator()
    probes = [trajectory_probes(random, turns=turns) for turns in (2, 3, 12, 2, 2)]
    plan = schedule(probes, budget=300)
    (packs,) = plan.ranks
    assert sorted(member for pack in packs for member in pack.members) == [0, 1, 2, 3, 4]
    assert [pack.members for pack in packs if len(pack.tree) > 300] == [(2,)]


def test_every_rank_has_the_same_number_of_forwards():
    random = generator()
    probes = [trajectory_probes(random, turns=9), *[trajectory_probes(random, turns=2) for _ in range(3)]]
    plan = schedule(probes, budget=400, ranks=2)
    assert len({len(packs) for packs in plan.ranks}) == 1
    fillers = [pack for packs in plan.ranks for pack in packs if not pack.members]
    assert plan.tokens == sum(len(pack.tree) for packs in plan.ranks for pack in packs) - len(fillers)


def test_trajectories_without_probes_take_no_room_and_keep_their_place():
    plan = schedule([[], [Probe([1], [2], [1])], []], budget=10, ranks=2)
    answers = [
        [torch.arange(len(tree.targets), dtype=torch.float32) for tree in trees] for trees in plan.trees
    ]
    assert [len(found) for found in plan.collect([[], [Probe([1], [2], [1])], []], answers)] == [0, 1, 0]
    assert schedule([[], []], budget=10, ranks=2).trees == [[], []]


def test_rollouts_of_one_question_share_their_prompt():
    random = generator()
    one = trajectory_probes(random)
    other = [Probe([*one[0].context_ids[:14], 5, 6], one[0].probe_ids, one[0].answer_mask)]
    apart = schedule([one], 10_000).tokens + schedule([other], 10_000).tokens
    assert schedule([one, other], 10_000).tokens == apart - 14


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=30),
    st.integers(1, 60),
    st.integers(1, 5),
)
def test_dividing_loses_nothing_and_keeps_to_the_budget(sizes, budget, ranks):
    parts = divide(sizes, budget, ranks)
    assert [place for part in parts for place in part] == list(range(len(sizes)))
    for part in parts:
        assert sum(sizes[place] for place in part) <= budget or len(part) == 1


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 5))
def test_ranks_differ_by_no_more_than_one_item(sizes, ranks):
    dealt = deal(sizes, ranks)
    assert sorted(place for places in dealt for place in places) == list(range(len(sizes)))
    loads = [sum(sizes[place] for place in places) for places in dealt]
    assert max(loads) - min(loads) <= max(sizes, default=0)
