"""The parts of a report about evaluations: results, pairs, EM by objectives and hops, endings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from eval.comparison import Difference, compare_samples
from eval.pages.chart import Chart, Point, Series
from eval.pages.section import Section
from eval.pages.table import Table
from eval.report_numbers import cells, exact_match_by, interval, lines, token_count, with_interval
from eval.run_folder import Evaluation
from eval.sample_log import differences


def results(evaluations: Sequence[Evaluation]) -> Section | None:
    """Scores and costs of each run, and F1 against tokens."""
    if not evaluations:
        return None
    costs = [_cost(index, evaluation) for index, evaluation in enumerate(evaluations)]
    costs = [series for series in costs if series.points]
    chart = Chart(
        "F1 against tokens", "tokens per question, all requests together", "F1", costs, kind="scatter"
    )
    note = (
        "Means over all questions; a failed one counts as wrong. Brackets hold the 95 % interval by bootstrap over "
        "questions; ± is a standard error, where a summary has no interval. Total tokens are those of all requests for "
        "a question, peak tokens those of its largest request, dependency the tokens that the generated ones attend "
        "to; ≈ marks estimates. Support is the share of gold paragraphs that were found, or named in a memory."
    )
    open_runs = [evaluation.key for evaluation in evaluations if not evaluation.finished]
    if open_runs:
        note += f" Not finished, so only over the samples so far: {', '.join(open_runs)}."
    return Section("Results", note, [_scores(evaluations), _costs(evaluations)], [chart] if costs else [])


def _scores(evaluations: Sequence[Evaluation]) -> Table:
    headings = (
        "run", "folder", "model", "context", "questions", "EM", "F1", "sub-EM", "right format", "failed",
    )  # fmt: skip
    rows = []
    for evaluation in evaluations:
        summary, settings = evaluation.summary, evaluation.settings
        model = settings.get("model", {})
        rows.append(
            [
                evaluation.key,
                evaluation.name,
                str(model.get("name") or str(model.get("sha256", "–"))[:12]),
                str(settings.get("agent", {}).get("context", "–")),
                str(summary["n"]),
                *(with_interval(summary, name) for name in ("em", "f1", "sub_em")),
                _number(summary, "format_share", 3),
                str(summary["failed"]),
            ]
        )
    return Table("Scores", headings, rows, names=4)


def _costs(evaluations: Sequence[Evaluation]) -> Table:
    headings = (
        "run", "turns", "searches", "total tokens", "peak tokens", "dependency", "support by search",
        "support by memory", "seconds",
    )  # fmt: skip
    rows = []
    for evaluation in evaluations:
        summary = evaluation.summary
        rows.append(
            [
                evaluation.key,
                _number(summary, "turns", 2),
                _number(summary, "searches", 2),
                *(_tokens(summary, name) for name in ("total_tokens", "peak_tokens", "dependency")),
                with_interval(summary, "support_by_search"),
                with_interval(summary, "support_by_memory"),
                _number(summary, "seconds", 2),
            ]
        )
    return Table("Searches, tokens, support and time per question", headings, rows)


def _number(summary: Mapping[str, Any], name: str, digits: int) -> str:
    return f"{summary[name]:,.{digits}f}" if summary.get(name) is not None else "–"


def _tokens(summary: Mapping[str, Any], name: str) -> str:
    count = token_count(summary, name)
    return "–" if count is None else f"{'≈ ' if count[1] else ''}{count[0]:,.0f}"


def _cost(index: int, evaluation: Evaluation) -> Series:
    summary, tokens = evaluation.summary, token_count(evaluation.summary, "total_tokens")
    low, high = interval(summary, "f1") or (None, None)
    points = [Point(tokens[0], summary["f1"], low, high)] if tokens else []
    return Series(evaluation.key, evaluation.name, points, index)


def pairs(evaluations: Sequence[Evaluation]) -> Section | None:
    """Every two runs over the same questions, with the settings in which they differ."""
    rows = []
    for a, b in combinations(evaluations, 2):
        if a.samples.keys() != b.samples.keys():
            continue
        paired = compare_samples(a.samples, b.samples, margin=0.0)
        counts = paired.pairs
        changed = [difference.partition(":")[0] for difference in differences(a.settings, b.settings)]
        rows.append(
            [
                f"{a.key} → {b.key}",
                ", ".join(changed) or "nothing",
                *map(str, (counts.n, counts.both, counts.only_before, counts.only_after, counts.neither)),
                _change(paired.em),
                _change(paired.f1),
                f"{paired.p_two_sided:.2g}",
            ]
        )
    if not rows:
        return None
    headings = (
        "pair", "settings that differ", "questions", "both right", "only first", "only second", "neither",
        "EM: change", "F1: change", "p",
    )  # fmt: skip
    note = (
        "Runs over the same questions, paired question by question. Right means that every objective is answered "
        "exactly; changes are second minus first. Brackets hold the 95 % interval of the change by paired bootstrap; p "
        "is the exact two-sided McNemar p of right answers. Several pairs are several tests: a single small p among "
        "many is weak evidence."
    )
    return Section("The same questions, paired", note, [Table("Pairs", headings, rows, names=2)])


def _change(difference: Difference) -> str:
    return f"{difference.value:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"


def by_count(evaluations: Sequence[Evaluation], key: str) -> Section | None:
    """EM by `objectives` or `hops`; None unless there are two numbers of them."""
    groups = [
        (evaluation.key, evaluation.name, exact_match_by(evaluation.samples.values(), key))
        for evaluation in evaluations
    ]
    numbers = sorted({number for _, _, means in groups for number in means})
    if len(numbers) < 2:
        return None
    title = f"EM by {key}"
    rows = [[letter, *cells(means, numbers)] for letter, _, means in groups]
    return Section(
        f"By number of {key}",
        "Mean EM ± standard error (number of questions).",
        [Table(title, ("run", *map(str, numbers)), rows)],
        [Chart(title, key, "EM", lines(groups), x_ticks=numbers)],
    )


def endings(evaluations: Sequence[Evaluation]) -> Section | None:
    """Stop reasons, format reasons and causes of failure, counted."""
    tables = []
    for key, title in (
        ("stop", "Why trajectories ended"),
        ("format_reasons", "What was wrong with the format"),
        ("failures", "Why questions failed"),
    ):
        counts = {evaluation.key: evaluation.summary.get(key) or {} for evaluation in evaluations}
        names = sorted({name for count in counts.values() for name in count})
        if names:
            rows = [
                [letter, *(str(count.get(name, 0)) for name in names)] for letter, count in counts.items()
            ]
            tables.append(Table(title, ("run", *names), rows))
    return Section("Endings, format and failures", "Questions by reason.", tables) if tables else None
