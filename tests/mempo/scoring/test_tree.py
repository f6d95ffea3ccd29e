"""Layout of trees: what is shared is laid out once, and every row sees its own sequence's past."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mempo.probe import Probe
from mempo.scoring.tree import build_tree


def sequence(probe):
    return [*probe.context_ids, *probe.probe_ids]


def attended(tree, row):
    """Token ids of the rows that a row attends to, itself last."""
    segment = next(part for part in tree.segments if part.rows[0] <= row < part.rows[1])
    rows = [index for interval in segment.before for index in range(*interval)]
    return tree.token_ids[rows + list(range(segment.rows[0], row + 1))].tolist()


def check(tree, probes):
    assert [part.rows[0] for part in tree.segments] == [0, *[part.rows[1] for part in tree.segments][:-1]]
    assert tree.segments[-1].rows[1] == len(tree)
    for segment in tree.segments:
        assert tree.position_ids[slice(*segment.rows)].tolist() == list(
            range(segment.depth, segment.depth + len(segment))
        )
    for probe, (start, end) in zip(probes, tree.answers, strict=True):
        places = len(probe.context_ids) + np.flatnonzero(probe.answer_mask)
        assert len(places) == end - start
        for place, row, target in zip(
            places, tree.predictors[start:end], tree.targets[start:end], strict=True
        ):
            assert attended(tree, row) == sequence(probe)[:place]
            assert target == sequence(probe)[place]


def test_memory_branches_leave_at_the_first_prompt_and_histories_are_the_trunk():
    history = list(range(10, 40))
    probes = [
        Probe([10, 11, 12, 70, 71], [1, 2, 3], [0, 1, 0]),
        Probe(history[:20], [1, 2, 3], [0, 1, 0]),
        Probe(history, [1, 2, 3], [0, 1, 0]),
    ]
    tree = build_tree(probes)
    trunk, earlier, memory = tree.segments
    assert len(trunk) == 33 and trunk.before == ()
    assert earlier.before == ((0, 20),) and len(earlier) == 3
    assert memory.before == ((0, 3),) and len(memory) == 5
    check(tree, probes)


def test_an_equal_sequence_costs_nothing_more_whatever_its_mask():
    probes = [
        Probe([1, 2], [3, 4, 5], [0, 1, 0]),
        Probe([1, 2], [3, 4, 5], [0, 0, 1]),
        Probe([1], [2, 3], [1, 1]),
    ]
    tree = build_tree(probes)
    assert tree.token_ids.tolist() == [1, 2, 3, 4, 5]
    check(tree, probes)


def test_a_branch_may_leave_a_branch():
    probes = [
        Probe([1, 2, 3, 4, 5, 6], [7], [1]),
        Probe([1, 2, 8, 9], [7, 7], [1, 1]),
        Probe([1, 2, 8], [5], [1]),
    ]
    tree = build_tree(probes)
    assert tree.segments[2].before == ((0, 2), (7, 8))
    check(tree, probes)


def test_sequences_without_a_common_beginning_stay_apart():
    probes = [Probe([1, 2], [3], [1]), Probe([4, 2], [3], [1])]
    tree = build_tree(probes)
    assert all(segment.before == () for segment in tree.segments)
    check(tree, probes)


def test_an_answer_that_nothing_predicts_is_an_error():
    with pytest.raises(ValueError, match="first token"):
        build_tree([Probe([], [1, 2], [1, 0])])
    with pytest.raises(ValueError, match="no probe"):
        build_tree([])


@st.composite
def random_probes(draw):
    """Few tokens and short sequences: prefixes are shared in every way there is."""
    tokens = st.integers(0, 2)
    probes = []
    for _ in range(draw(st.integers(1, 8))):
        context = draw(st.lists(tokens, min_size=1, max_size=6))
        text = draw(st.lists(tokens, min_size=1, max_size=4))
        mask = draw(st.lists(st.integers(0, 1), min_size=len(text), max_size=len(text)).filter(any))
        probes.append(Probe(context, text, mask))
    return probes


@given(random_probes())
def test_every_row_of_any_tree_sees_exactly_its_own_past(probes):
    tree = build_tree(probes)
    check(tree, probes)
    distinct = {tuple(sequence(probe)[: end + 1]) for probe in probes for end in range(len(sequence(probe)))}
    assert len(tree) == len(distinct), "each distinct prefix is one row"
