"""Fusion: the formula, its ties, and rankers of one corpus only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.search.hybrid import HybridRanker, fuse
from tools.search.ranking import EMPTY, Ranking


def ranking(*positions):
    return Ranking(np.array(positions, np.int64), np.linspace(2, 1, len(positions), dtype=np.float32))


class Fixed:
    """Gives the same documents for every query that is not blank, and knows what depth it was asked for."""

    def __init__(self, *positions, size=100):
        self.positions, self.size = positions, size

    def __len__(self):
        return self.size

    def rank(self, queries, topk):
        self.asked = topk
        return [ranking(*self.positions[:topk]) if query.strip() else EMPTY for query in queries]


def test_scores_are_the_sums_of_reciprocal_ranks():
    fused = fuse([ranking(7, 3), ranking(3, 9, 7)], 10)
    assert fused.positions.tolist() == [3, 7, 9]
    np.testing.assert_allclose(fused.scores, [1 / 62 + 1 / 61, 1 / 61 + 1 / 63, 1 / 62], rtol=1e-6)
    assert fused.positions.dtype == np.int64 and fused.scores.dtype == np.float32


def test_equal_sums_go_by_best_rank_and_then_by_corpus_order():
    assert fuse([ranking(9, 4), ranking(4, 9)], 2).positions.tolist() == [4, 9]
    # k = 0: ranks 2 and 2 add up to what rank 1 alone gives.
    assert fuse([ranking(8, 1), ranking(5, 1)], 3, k=0).positions.tolist() == [5, 8, 1]


def test_the_order_of_three_rankings_makes_no_difference_of_the_last_bit():
    lists = [ranking(1, 2, 3), ranking(2, 3, 1), ranking(3, 1, 2)]
    assert fuse(lists, 3).positions.tolist() == fuse(lists[::-1], 3).positions.tolist() == [1, 2, 3]


def test_topk_edges_and_empty_rankings():
    assert fuse([ranking(1, 2), EMPTY], 1).positions.tolist() == [1]
    assert len(fuse([ranking(1, 2), ranking(3)], 1000)) == 3
    assert len(fuse([EMPTY, EMPTY], 3)) == len(fuse([], 3)) == 0
    with pytest.raises(ValueError, match="topk is 0"):
        fuse([ranking(1)], 0)


@given(st.lists(st.lists(st.integers(0, 20), unique=True), max_size=4), st.integers(1, 30))
def test_a_fused_ranking_falls_and_has_each_document_once(lists, topk):
    fused = fuse([ranking(*positions) for positions in lists], topk)
    everything = set().union(*lists)
    assert set(fused.positions.tolist()) <= everything
    assert len(set(fused.positions.tolist())) == len(fused) == min(topk, len(everything))
    assert (np.diff(fused.scores) <= 0).all()


def test_a_hybrid_asks_its_rankers_deep_enough():
    first, second = Fixed(1, 2, 3), Fixed(3, 4, 5)
    hybrid = HybridRanker([first, second], depth=2)
    assert len(hybrid) == 100
    (found,) = hybrid.rank(["ann lee"], 2)
    assert first.asked == second.asked == 2
    assert found.positions.tolist() == [1, 3]
    hybrid.rank(["ann lee"], 50)
    assert first.asked == second.asked == 50


def test_each_query_is_fused_for_itself():
    hybrid = HybridRanker([Fixed(1, 2), Fixed(2)])
    assert [found.positions.tolist() for found in hybrid.rank(["ann", " ", "lee"], 1)] == [[2], [], [2]]
    assert hybrid.rank([], 1) == []
    with pytest.raises(ValueError, match="topk is 0"):
        hybrid.rank(["ann"], 0)


def test_rankers_of_different_corpora_are_refused():
    with pytest.raises(ValueError, match=r"corpora of \[99, 100\] documents"):
        HybridRanker([Fixed(1), Fixed(1, size=99)])
    with pytest.raises(ValueError, match="rankers of one corpus"):
        HybridRanker([])
    with pytest.raises(ValueError, match="depth is 0"):
        HybridRanker([Fixed(1)], depth=0)
