from __future__ import annotations

import pytest

from eval.errors import EvalError
from eval.paired import compare, mcnemar_greater, mcnemar_two_sided


@pytest.mark.parametrize(
    ("only_before", "only_after", "p"),
    [
        (0, 0, 1.0),
        (0, 5, 1 / 32),
        (5, 0, 1.0),
        (1, 4, 6 / 32),  # (C(5,4) + C(5,5)) / 2^5
        (3, 3, (20 + 15 + 6 + 1) / 64),
    ],
)
def test_the_exact_p_by_hand(only_before: int, only_after: int, p: float) -> None:
    assert mcnemar_greater(only_before, only_after) == pytest.approx(p)


def test_large_counts_stay_exact() -> None:
    assert mcnemar_greater(4000, 4000) == pytest.approx(0.5, abs=0.01)
    assert 0 < mcnemar_greater(400, 600) < 1e-9


def test_pairs_are_counted_by_question() -> None:
    before = {"a": True, "b": True, "c": False, "d": False, "e": False}
    after = {"e": True, "d": True, "c": False, "b": False, "a": True}
    paired = compare(before, after)
    assert (paired.both, paired.only_before, paired.only_after, paired.neither) == (1, 1, 2, 1)
    assert paired.n == 5
    assert paired.difference == pytest.approx(0.2)
    assert paired.p == pytest.approx((3 + 1) / 8)


def test_other_questions_cannot_be_paired() -> None:
    with pytest.raises(EvalError, match="in one run only, e.g. 'b'"):
        compare({"a": True}, {"a": True, "b": False})


@pytest.mark.parametrize(
    ("only_before", "only_after", "p"),
    [(0, 0, 1.0), (0, 5, 2 / 32), (5, 0, 2 / 32), (1, 4, 12 / 32), (3, 3, 1.0)],
)
def test_the_two_sided_p_is_twice_the_smaller_tail(only_before: int, only_after: int, p: float) -> None:
    assert mcnemar_two_sided(only_before, only_after) == pytest.approx(p)
