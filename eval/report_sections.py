"""What a report says about runs: the parts that these runs have something for."""

from __future__ import annotations

from collections.abc import Sequence

from eval.pages.section import Section
from eval.report_evaluations import by_count, endings, pairs, results
from eval.report_memories import answer_probabilities, memory_lengths
from eval.report_training import training
from eval.run_folder import Evaluation, TrainingRun


def sections(evaluations: Sequence[Evaluation], runs: Sequence[TrainingRun]) -> list[Section]:
    """All parts, in the order of the page."""
    parts = [
        results(evaluations),
        pairs(evaluations),
        by_count(evaluations, "objectives"),
        by_count(evaluations, "hops"),
        endings(evaluations),
        training(runs),
        memory_lengths([*evaluations, *runs]),
        answer_probabilities([*evaluations, *runs]),
    ]
    return [part for part in parts if part is not None]
