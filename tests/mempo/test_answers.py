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
        ("$5", "5"),
        # articles stay where nothing else does
        ("an", "an"),
        ("The A.", "the a"),
        ("the x", "x"),
        # every dash goes, minus signs too
        *(
            (f"1{dash}2", "12")
            for dash in "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2796\u02d7\u207b\ufe63\uff0d"
        ),
        # what cannot be seen goes, in a word and around it
        *(
            (f"{mark}Pa{mark}ris{mark}", "paris")
            for mark in "\u200e\u200f\u202a\u202c\u2068\u200b\ufeff\u00ad\u2060\x00"
        ),
        # but joiners belong to the spelling in scripts that have them, and there alone
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("क्\u200dष", "क्\u200dष"),
        ("❤\u200d🔥", "❤\u200d🔥"),
        ("می\u200c", "می"),
        ("می\u200c خواهم", "می خواهم"),
        ("Auf\u200clage", "auflage"),
    ],
)
def test_normalisation(text: str, normal: str) -> None:
    assert normalize(text) == normal


def test_nothing_matches_an_empty_prediction() -> None:
    for empty in ("", "  ", "\u200b", "?!"):
        assert not exact_match(empty, ["x", "...", "the"])
        assert not sub_exact_match(empty, ["x"])
        assert f1(empty, ["x", "..."]) == 0.0


@pytest.mark.parametrize(
    ("said", "gold", "em", "f1_value", "sub"),
    [
        ("A", "A", True, 1.0, True),  # of a multiple choice
        ("(a)", "A", True, 1.0, True),
        ("**A.**", "A", True, 1.0, True),
        ("B", "A", False, 0.0, False),
        ("The", "A", False, 0.0, False),
        ("the A", "A", False, 2 / 3, True),
        ("Option A", "A", False, 0.0, False),  # next to other words it is an article
        ("a dog", "A", False, 0.0, False),
        ("A", "a dog", False, 0.0, False),
        ("", "A", False, 0.0, False),
        ("The The", "the the", True, 1.0, True),  # a band
        ("The", "The The", False, 2 / 3, False),
    ],
)
def test_an_answer_of_articles_alone_can_be_right(
    said: str, gold: str, em: bool, f1_value: float, sub: bool
) -> None:
    score = score_answer(said, [[gold]])
    assert (score.em, score.f1, score.sub_em) == ([em], [pytest.approx(f1_value)], [sub])


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


NOTHING = ["", "  ", "\u200b", "−", "?!", "...", "«»", "。", "؟"]


@pytest.mark.parametrize("text", NOTHING)
@pytest.mark.parametrize("gold", ["Paris", "A", "the", "?!", "。"])
def test_what_normalises_to_nothing_is_never_right(text: str, gold: str) -> None:
    score = score_answer(text, [[gold]])
    assert (score.em, score.f1, score.sub_em) == ([False], [0.0], [False])


@pytest.mark.parametrize("gold", NOTHING)
def test_a_gold_that_normalises_to_nothing_cannot_be_matched(gold: str) -> None:
    for text in ("Paris", gold, f"Paris {gold}"):
        score = score_answer(text, [[gold]])
        assert (score.em, score.f1, score.sub_em) == ([False], [0.0], [False])


def test_an_article_is_left_out_only_where_it_is_a_word() -> None:
    assert exact_match("A Coruña", ["Coruña"])
    assert exact_match("The Who", ["Who"])
    assert not exact_match("A", ["Vitamin A"])
    assert not exact_match("Theo", ["o"])
    assert exact_match("A-ha", ["Aha"])  # punctuation goes first


@pytest.mark.parametrize(
    ("text", "gold", "em", "f1_value", "sub"),
    [
        ("Москва", "москва.", True, 1.0, True),
        ("город Москва", "Москва", False, 2 / 3, True),
        ("Ёлка", "Елка", False, 0.0, False),
        ("القاهرة؟", "القاهرة", True, 1.0, True),
        ("مدينة القاهرة", "القاهرة", False, 2 / 3, True),
        ("東京。", "「東京」", True, 1.0, True),
        ("答えは東京です", "東京", False, 0.0, False),  # one word: no part of it counts
        ("東京 です", "東京", False, 2 / 3, True),
        ("１９０１年", "1901年", True, 1.0, True),
        ("मुंबई", "मुंबई", True, 1.0, True),
        ("Élan", "Elan", False, 0.0, False),
    ],
)
def test_other_scripts_are_scored_by_words_between_spaces(
    text: str, gold: str, em: bool, f1_value: float, sub: bool
) -> None:
    score = score_answer(text, [[gold]])
    assert (score.em, score.sub_em) == ([em], [sub])
    assert score.f1 == [pytest.approx(f1_value)]


@pytest.mark.parametrize(
    ("text", "right", "given"),
    [
        ("a1;;c1", [True, False, True], 3),
        (";;", [False, False, False], 3),
        ("a1;b1;c1;d1", [True, True, True], 4),
        ("a1", [True, False, False], 1),
        ("; b1 ;", [False, True, False], 3),
        (" ", [False, False, False], 0),
        (None, [False, False, False], 0),
    ],
)
def test_answers_to_several_questions_count_by_their_place(
    text: str | None, right: list[bool], given: int
) -> None:
    score = score_answer(text, [["a1"], ["b1"], ["c1"]])
    assert (score.em, score.given) == (right, given)
    assert score.em_sum == sum(right)
    assert score.em_mean == pytest.approx(sum(right) / 3)
    assert score.sub_em_mean == score.f1_mean == score.em_mean
