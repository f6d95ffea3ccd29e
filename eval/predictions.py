"""Predictions of any system in a JSON file, scored as our own answers are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from eval.bootstrap import mean_intervals
from eval.dotted import ABSENT, value_at
from eval.errors import EvalError
from eval.json_answers import Treated, gold_answers, predicted_answer
from eval.json_records import read_json_records
from mempo.answers import normalize, score_answer

NAMED = 10  # records without gold that are named
_VERDICTS = {"true": 1.0, "yes": 1.0, "correct": 1.0, "false": 0.0, "no": 0.0, "incorrect": 0.0}


@dataclass(frozen=True)
class Prediction:
    """One predicted answer with its gold.

    Attributes:
        text: None if the record gives none.
        answers: one list of aliases per objective; an empty one can only be answered wrongly.
        verdict: what a judge said, 0 to 1; None without one.
        treated: what of it was no text.
        place: of the record, e.g. `line 7`.
    """

    text: str | None
    answers: list[list[str]]
    verdict: float | None = None
    treated: Treated = field(default_factory=Treated)
    place: str = ""


def read_predictions(
    path: Path, prediction_field: str, gold_field: str, judge_field: str | None = None
) -> list[Prediction]:
    """All records of a JSON file.

    Args:
        prediction_field: dotted name, e.g. `output.answer`. Where it is null or absent the prediction is empty: it stays in
            the denominator.
        gold_field: dotted name. Several lists of aliases make several objectives, whose predictions are joined by
            semicolons. What may stand in both fields besides texts: `eval.json_answers`.
        judge_field: dotted name; true or false, yes or no, correct or incorrect, or a number from 0 to 1.

    Raises:
        EvalError: naming line and field: a gold field that is absent, a value of another kind, a field that no record
            has; also where no record has a gold answer.
    """
    records = read_json_records(path)
    for name in filter(None, (prediction_field, judge_field)):
        if all(value_at(record, name) is ABSENT for _, record in records):
            known = ", ".join(records[0][1])
            raise EvalError(f"{path}: no record has the field {name}; the first one has {known}")
    predictions = []
    for place, record in records:
        name, treated = gold_field, Treated()
        try:
            answers = _gold(value_at(record, name), treated)
            name = prediction_field
            text = predicted_answer(_or_none(value_at(record, name)), answers, treated)
            verdict = None
            if judge_field is not None:
                name = judge_field
                verdict = _verdict(value_at(record, name))
        except ValueError as error:
            raise EvalError(f"{path}, {place}: field {name}: {error}") from error
        predictions.append(Prediction(text, answers, verdict, treated, place))
    if not any(aliases for each in predictions for aliases in each.answers):
        raise EvalError(f"{path}: field {gold_field}: blank or null in all {len(predictions)} records")
    return predictions


def score_predictions(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """The scores of a file of predictions.

    Returns:
        `n`; `em`, `f1`, `sub_em` (means of the per-question mean over objectives) and, if a question has several
        objectives, their sums `em_sum`, `f1_sum`, `sub_em_sum`; `judge`, the mean verdict of the `judge_n` records that
        have one (absent without any); for each of them `<name>_ci`, its 95 % interval. `empty`: predictions that are
        absent, null or blank; `empty_after_normalisation`: those too of which nothing is left to compare. The counts of
        `eval.json_answers.Treated`, and `without_gold_at`: the places of the first records without gold.
    """
    scores = [score_answer(each.text, each.answers) for each in predictions]
    columns: dict[str, list[float | None]] = {
        "em": [score.em_mean for score in scores],
        "f1": [score.f1_mean for score in scores],
        "sub_em": [score.sub_em_mean for score in scores],
    }
    if any(len(each.answers) > 1 for each in predictions):
        columns["em_sum"] = [score.em_sum for score in scores]
        columns["f1_sum"] = [sum(score.f1) for score in scores]
        columns["sub_em_sum"] = [float(sum(score.sub_em)) for score in scores]
    judged = sum(each.verdict is not None for each in predictions)
    if judged:
        columns["judge"] = [each.verdict for each in predictions]
    bounds = mean_intervals(columns)
    result: dict[str, Any] = {"n": len(predictions)}
    for name, column in columns.items():
        values = [value for value in column if value is not None]
        result[name] = sum(values) / len(values)
        result[f"{name}_ci"] = list(bounds[name] or ())
    if judged:
        result["judge_n"] = judged
    result["empty"] = sum(not (each.text or "").strip() for each in predictions)
    result["empty_after_normalisation"] = sum(not normalize(each.text or "") for each in predictions)
    result |= asdict(sum((each.treated for each in predictions), Treated()))
    result["without_gold_at"] = [each.place for each in predictions if each.treated.without_gold][:NAMED]
    return result


def _gold(value: Any, treated: Treated) -> list[list[str]]:
    if value is ABSENT:
        raise ValueError("is missing; every record needs a gold answer")
    return gold_answers(value, treated)


def _or_none(value: Any) -> Any:
    return None if value is ABSENT else value


def _verdict(value: Any) -> float | None:
    if value is ABSENT or value is None:
        return None
    if isinstance(value, str) and value.strip().lower() in _VERDICTS:
        return _VERDICTS[value.strip().lower()]
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    raise ValueError(f"true or false, or a number from 0 to 1 is expected, got {value!r}")
