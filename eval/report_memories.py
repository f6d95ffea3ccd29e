"""The parts of a report about memories: how long they are, and how well they support the answer, by turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eval.pages.chart import Chart
from eval.pages.section import Section
from eval.pages.table import Table
from eval.report_numbers import Mean, cells, lines, memory_length, memory_probability, reference_probability
from eval.run_folder import Evaluation, TrainingRun

OF_TRAINING = "Of a training run (T…) the sample trajectories that it kept count, over all steps."


def memory_lengths(sources: Sequence[Evaluation | TrainingRun]) -> Section | None:
    """Tokens of the memories by turn."""
    groups = [(source.key, source.name, memory_length(source.records)) for source in sources]
    note = (
        "Tokens of the closed memories, their tags included: mean ± standard error (memories). Later turns exist only "
        "for the questions that took so long. "
    )
    return _by_turn("Memory length by turn", note + OF_TRAINING, "tokens", groups)


def answer_probabilities(sources: Sequence[Evaluation | TrainingRun]) -> Section | None:
    """P_mem and what it is compared with by turn, where memories were scored."""
    groups = []
    for source in sources:
        history = all(record.reference == "history" for record in source.records)
        groups += [
            (source.key, f"{source.name}: P_mem", memory_probability(source.records)),
            (
                f"{source.key}′",
                f"{source.name}: {'P_full' if history else 'P_previous'}",
                reference_probability(source.records),
            ),
        ]
    note = (
        "Mean ± standard error (memories). P_mem is the probability of the gold answer given the question and the "
        "memory alone, P_full given everything before the turn, P_previous given the memory before. "
    )
    return _by_turn("Answer probability by turn", note + OF_TRAINING, "P(answer)", groups)


def _by_turn(
    title: str, note: str, y_label: str, groups: Sequence[tuple[str, str, Mapping[int, Mean]]]
) -> Section | None:
    groups = [group for group in groups if group[2]]
    if not groups:
        return None
    turns = sorted({turn for _, _, means in groups for turn in means})
    rows = [[f"{key} {name}", *cells(means, turns)] for key, name, means in groups]
    return Section(
        title,
        note,
        [Table(title, ("turn", *map(str, turns)), rows)],
        [Chart(title, "turn", y_label, lines(groups))],
    )
