"""`mempo eval score`: files of any system, and an oracle that nobody here wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from eval.errors import EvalError
from eval.predictions import read_predictions, score_predictions
from eval.score_command import score

ROLLOUTS = Path(__file__).parents[2].parent / "shared" / "data" / "r1_searcher" / "hotpotqa_qwen.jsonl"

app = typer.Typer()
app.command()(score)


def call(*words: str | Path) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"}).invoke(app, [str(word) for word in words])
    return result.exit_code, re.sub(r"\x1b\[[0-9;]*m", "", result.output)


def write(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n")
    return path


@pytest.mark.skipif(not ROLLOUTS.exists(), reason="the real rollouts in shared/data are not here")
def test_the_scorer_agrees_with_the_published_figures_of_real_rollouts() -> None:
    fields = ["--prediction-field", "pred_ans", "--gold-field", "answer", "--judge-field", "gpt4o_output"]
    code, text = call(ROLLOUTS, *fields, "--json")
    told = json.loads(text)
    assert code == 0
    assert told["n"] == told["judge_n"] == 500
    assert told["em"] == pytest.approx(0.576, abs=0.002)
    assert told["f1"] == pytest.approx(0.713, abs=0.002)
    assert told["em"] < told["sub_em"] < told["judge"] == 0.75
    for name in ("em", "f1", "sub_em", "judge"):
        low, high = told[f"{name}_ci"]
        assert low < told[name] < high
        assert 0.05 < high - low < 0.1
    code, text = call(ROLLOUTS, *fields)
    assert code == 0
    for words in ("500 predictions", "0.576", "0.713", "0.646", "0.750", "judge, as stored"):
        assert words in text


def test_nested_fields_and_every_shape_of_gold(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        {"out": {"said": "Paris"}, "gold": {"answer": "paris"}},
        {"out": {"said": "UK"}, "gold": {"answer": ["United Kingdom", "UK"]}},
        {"out": {"said": "Rome; 1901"}, "gold": {"answer": [["Rome"], ["1900"]]}},
    )
    result = score_predictions(read_predictions(path, "out.said", "gold.answer"))
    assert result["em"] == pytest.approx(2.5 / 3)
    assert result["em_sum"] == 1.0
    assert "judge" not in result


def test_empty_predictions_are_wrong_and_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        *({"pred": text, "gold": "?!"} for text in ("", " ", None, "?!")),
        {"error": "timeout", "gold": "Paris"},
        {"pred": "Paris", "gold": ["Paris"]},
    )
    result = score_predictions(read_predictions(path, "pred", "gold"))
    assert (result["n"], result["empty"], result["empty_after_normalisation"]) == (6, 4, 5)
    assert result["em"] == result["f1"] == result["sub_em"] == pytest.approx(1 / 6)


def scored(path: Path, *records: Any) -> dict[str, Any]:
    return score_predictions(read_predictions(write(path, *records), "pred", "gold"))


@pytest.mark.parametrize(
    ("pred", "gold", "right"),
    [
        (42, "42", True),
        ("42", 42, True),
        (42.0, 42, True),  # what a table with gaps makes of it
        ("42", [41, 42.0], True),
        (0.5, "0.5", True),
        (1e3, "1000", True),
        (-7, "−7", True),
        (420, 42.0, False),
        (True, True, True),
        ("yes", True, True),
        ("True", True, True),
        (True, "yes", True),
        (True, "true", True),
        (False, ["no"], True),
        (False, True, False),
        ("no", True, False),
        (1, True, False),
        (float("nan"), "nan", False),
    ],
)
def test_numbers_and_booleans_are_read_and_counted(tmp_path: Path, pred: Any, gold: Any, right: bool) -> None:
    result = scored(tmp_path / "x", {"pred": pred, "gold": gold})
    assert result["em"] == right
    given = [pred, *(gold if isinstance(gold, list) else [gold])]
    assert result["booleans"] == sum(isinstance(each, bool) for each in given)
    assert result["numbers"] == sum(type(each) in (int, float) and each == each for each in given)


def test_blank_aliases_are_left_out_and_a_record_without_gold_stays_as_wrong(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    records = [
        {"pred": "Paris", "gold": ["", "Paris", " ", None]},
        {"pred": "", "gold": ""},
        {"pred": "x", "gold": None},
        {"pred": "x", "gold": []},
        {"pred": "Rome; x", "gold": [["Rome"], [" "]]},
    ]
    result = scored(path, *records)
    assert (result["n"], result["blank_aliases"], result["without_gold"]) == (5, 6, 4)
    assert result["without_gold_at"] == ["line 2", "line 3", "line 4", "line 5"]
    assert result["em"] == pytest.approx((1 + 0.5) / 5)
    code, text = call(path, "--prediction-field", "pred", "--gold-field", "gold")
    assert code == 0
    assert "without gold, scored as wrong: line 2, line 3, line 4, line 5" in " ".join(text.split())
    with pytest.raises(EvalError, match="field gold: blank or null in all 2 records"):
        scored(path, *records[1:3])


def test_lone_surrogates_are_scored_as_the_replacement_character(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"pred": "a\\ud800", "gold": "a\\udfff"}\n')
    assert score_predictions(read_predictions(tmp_path / "x", "pred", "gold"))["em"] == 1.0


def test_a_json_list_reads_as_lines_do(tmp_path: Path) -> None:
    records = [{"pred": "red sea", "gold": "sea"}, {"pred": "c", "gold": "c"}]
    (tmp_path / "x.json").write_text(json.dumps(records))
    from_list = score_predictions(read_predictions(tmp_path / "x.json", "pred", "gold"))
    assert from_list == score_predictions(read_predictions(write(tmp_path / "y", *records), "pred", "gold"))
    assert from_list["f1"] == pytest.approx((2 / 3 + 1) / 2)


def test_verdicts_are_read_in_their_usual_forms(tmp_path: Path) -> None:
    given = [True, False, "True", "false", " Yes", "incorrect", 0.5, 1, None]
    path = write(tmp_path / "x", *({"pred": "a", "gold": "a", "judge": each} for each in given))
    predictions = read_predictions(path, "pred", "gold", "judge")
    assert [each.verdict for each in predictions] == [1, 0, 1, 0, 1, 0, 0.5, 1, None]
    result = score_predictions(predictions)
    assert (result["judge"], result["judge_n"]) == (pytest.approx(4.5 / 8), 8)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"pred": "x"}, "line 2: field gold: is missing"),
        ({"pred": "x", "gold": {"a": 1}}, "line 2: field gold: an answer, a list of aliases .* got dict"),
        ({"pred": "x", "gold": [["x"], "y"]}, "line 2: field gold: a list of aliases and a list of lists"),
        ({"pred": "x", "gold": [[["x"]]]}, "line 2: field gold: an answer, a list of aliases .* got list"),
        (
            {"pred": ["x"], "gold": "x"},
            "line 2: field pred: a text, a number, a boolean or null is expected, got list",
        ),
        ({"pred": "x", "gold": "x", "judge": "maybe"}, "line 2: field judge: true or false"),
        ({"pred": "x", "gold": "x", "judge": 7}, "line 2: field judge: true or false"),
        ([1], "line 2: an object is expected"),
    ],
)
def test_a_record_that_cannot_be_scored_is_named(tmp_path: Path, record: Any, message: str) -> None:
    path = write(tmp_path / "x.jsonl", {"pred": "x", "gold": "x", "judge": True}, record)
    with pytest.raises(EvalError, match=message):
        read_predictions(path, "pred", "gold", "judge")


def test_a_field_that_no_record_has_is_an_error_with_those_that_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", {"pred": "x", "gold": "x"})
    code, text = call(path, "--prediction-field", "answer", "--gold-field", "gold")
    assert code == 1
    assert "no record has the field answer; the first one has pred, gold" in text
    code, text = call(tmp_path / "none", "--prediction-field", "pred", "--gold-field", "gold")
    assert code == 1
    assert "cannot be read" in text


def test_a_long_text_and_nul_bytes_are_scored_as_any_other(tmp_path: Path) -> None:
    long = "word " * 200_000
    result = scored(
        tmp_path / "x", {"pred": f"{long}Par\x00is", "gold": "Paris"}, {"pred": "\x00", "gold": long}
    )
    assert (result["n"], result["sub_em"], result["empty_after_normalisation"]) == (2, 0.5, 1)
