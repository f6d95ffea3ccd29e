"""The verdict of a comparison, at every border of its rule."""

from __future__ import annotations

import pytest

from eval.verdict import Verdict


@pytest.mark.parametrize(
    ("low", "high", "margin", "expected"),
    [
        (0.01, 0.05, 0.0, Verdict.BETTER),
        (0.01, 0.05, 0.03, Verdict.BETTER),
        (-0.05, -0.01, 0.0, Verdict.WORSE),
        (-0.09, -0.04, 0.03, Verdict.WORSE),
        (-0.09, -0.01, 0.03, Verdict.UNDECIDED),  # worse, but perhaps by less than matters
        (-0.02, -0.01, 0.03, Verdict.NO_WORSE),
        (-0.02, 0.02, 0.03, Verdict.NO_WORSE),
        (-0.04, 0.02, 0.03, Verdict.UNDECIDED),
        (-0.03, 0.02, 0.03, Verdict.UNDECIDED),
        (-0.02, 0.02, 0.0, Verdict.UNDECIDED),
        (0.0, 0.0, 0.0, Verdict.UNDECIDED),  # no difference seen shows none
        (0.0, 0.0, 0.03, Verdict.NO_WORSE),
    ],
)
def test_the_interval_stands_against_the_margin(
    low: float, high: float, margin: float, expected: Verdict
) -> None:
    assert Verdict.of(low, high, changed=20, questions=400, margin=margin) is expected


@pytest.mark.parametrize(
    ("changed", "better", "worse"), [(5, "undecided", "undecided"), (6, "better", "worse")]
)
def test_few_changed_answers_decide_nothing(changed: int, better: str, worse: str) -> None:
    assert Verdict.of(0.1, 0.8, changed=changed, questions=10, margin=0.0) == better
    assert Verdict.of(-0.8, -0.1, changed=changed, questions=10, margin=0.0) == worse


def test_few_questions_cannot_rule_a_small_loss_out() -> None:
    # 0.97^122 > 0.025 > 0.97^123 about: so many questions would show no loss of 3 % by chance.
    assert Verdict.of(0.0, 0.0, changed=0, questions=122, margin=0.03) is Verdict.UNDECIDED
    assert Verdict.of(0.0, 0.0, changed=0, questions=123, margin=0.03) is Verdict.NO_WORSE
