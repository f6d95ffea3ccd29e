"""EM, F1 and sub-EM; empty and foreign texts; several objectives."""

import pytest

from mempo.answers import exact_match, f1, normalize, score_answer, split_objectives, sub_exact_match


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Beatles!", "beatles"),
        ("A.B.C.", "abc"),
        ("«Élan»", "élan"),
        ("東京。", "東京"),
        ("ＡＢＣ", "abc"),
        ("...", ""),
        ("an", ""),
        ("$5", "5"),
    ],
)
def test_normalisation(text: str, normal: str) -> None:
    assert normalize(text) == normal


def test_nothing_matches_an_empty_prediction() -> None:
    for empty in ("", "  ", "the", "?!"):
        assert not exact_match(empty, ["x", "...", "the"])
        assert not sub_exact_match(empty, ["x"])
        assert f1(empty, ["x", "..."]) == 0.0


def test_exact_match_takes_any_alias_and_no_list_of_guesses() -> None:
    assert exact_match("the UK", ["United Kingdom", "UK"])
    assert not exact_match("UK or France", ["UK"])
    assert sub_exact_match("UK or France", ["UK"])
    assert not sub_exact_match("Duke", ["UK"])


def test_f1_by_hand() -> None:
    assert f1("Mira Voss the elder", ["Mira Voss"]) == pytest.approx(2 * (2 / 3) * 1 / (2 / 3 + 1))
    assert f1("yes it is", ["yes"]) == 0.0
    assert f1("yes", ["yes"]) == 1.0


def test_one_objective_keeps_its_semicolons() -> None:
    assert split_objectives("a; b", 1) == ["a; b"]


def test_several_objectives_are_scored_by_position() -> None:
    golds = [["Paris"], ["1901", "nineteen oh one"], ["Rome"]]
    score = score_answer("Paris; 1901", golds)
    assert score.em == [True, True, False]
    assert score.em_sum == 2.0
    assert score.em_mean == pytest.approx(2 / 3)
    assert score.given == 2
    assert score_answer("1901; Paris; Rome; Oslo", golds).em == [False, False, True]
    assert score_answer("1901; Paris; Rome; Oslo", golds).given == 4
    assert score_answer(None, golds).em_sum == 0.0
    assert score_answer(None, golds).given == 0
