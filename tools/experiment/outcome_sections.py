"""The parts of an experiment's report about its outcomes: the verdict, what explains it, and every seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tools.experiment.cells import by_seed, difference_cells, mean_cells, number
from tools.experiment.charts import seed_chart
from tools.experiment.protocol import Protocol
from tools.experiment.results import DONE, Run
from tools.experiment.verdict import RULE

if TYPE_CHECKING:
    from eval.pages.section import Section

INTERVALS = (
    "“95 % over seeds” is Student's t on the differences of paired seeds. “Seeds and questions” is a bootstrap that draws seeds, then "
    "questions of each, which is too narrow with few seeds; the verdict does not use it. With several arms, the intervals are not "
    "corrected for their number."
)


def verdict_section(protocol: Protocol, results: Mapping[str, Any]) -> Section:
    from eval.pages.section import Section
    from eval.pages.table import Table

    rows = [
        [
            protocol.control,
            *mean_cells(protocol, results["runs"], protocol.control, protocol.primary),
            *["–"] * 4,
        ]
    ]
    rows += [
        [
            arm,
            *mean_cells(protocol, results["runs"], arm, protocol.primary),
            *difference_cells(found),
            found["verdict"],
        ]
        for arm, found in results["primary"].items()
    ]
    headings = (
        "arm",
        "runs",
        "mean",
        f"difference to {protocol.control}",
        "95 % over seeds",
        "95 % over seeds and questions",
        "verdict",
    )
    note = " ".join([results["verdict"], RULE, INTERVALS])
    return Section("Verdict", note, [Table(f"Primary outcome: {protocol.primary}", headings, rows)])


def secondary_section(protocol: Protocol, results: Mapping[str, Any]) -> Section | None:
    from eval.pages.section import Section
    from eval.pages.table import Table

    rows = [
        [name, arm, *mean_cells(protocol, results["runs"], arm, name), *difference_cells(found)]
        for name, arms in results["secondary"].items()
        for arm, found in arms.items()
    ]
    if not rows:
        return None
    headings = (
        "outcome",
        "arm",
        "runs",
        "mean",
        "difference",
        "95 % over seeds",
        "95 % over seeds and questions",
    )
    note = "They explain the primary outcome; the verdict does not rest on them."
    return Section("Secondary outcomes", note, [Table("Against the control", headings, rows, names=2)])


def seeds_section(protocol: Protocol, runs: Sequence[Run]) -> Section | None:
    from eval.pages.section import Section
    from eval.pages.table import Table

    tables, charts = [], []
    for name in (protocol.primary, *protocol.secondary):
        values = {arm: by_seed(runs, arm, name) for arm in protocol.arms}
        if not any(values.values()):
            continue
        rows = [
            [str(seed), *(number(values[arm].get(seed)) for arm in protocol.arms)] for seed in protocol.seeds
        ]
        tables.append(Table(name, ("seed", *protocol.arms), rows))
        charts.append(seed_chart(protocol, name, values))
    if not tables:
        return None
    before = [[str(seed), *(_before(runs, seed, mode) for mode in protocol.modes)] for seed in protocol.seeds]
    note = "Each dot is one run. The evaluation before training is one for all arms of a seed."
    return Section(
        "Every seed",
        note,
        [Table("EM before training", ("seed", *protocol.modes), before)],
        charts,
        tables,
    )


def _before(runs: Sequence[Run], seed: int, mode: str) -> str:
    """Of all arms; one number unless the protocol lets them start from different models."""
    values = {
        number(run["before"][mode].get("em")) for run in runs if run["seed"] == seed and run["status"] == DONE
    }
    return " / ".join(sorted(values)) or "–"
