"""The parts of an experiment's report that say what was run: the protocol, and every run with its failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tools.experiment.protocol import Protocol
from tools.experiment.results import DONE, Run

if TYPE_CHECKING:
    from eval.pages.section import Section


def protocol_section(protocol: Protocol, results: Mapping[str, Any]) -> Section:
    from eval.pages.section import Section
    from eval.pages.table import Table

    facts = [
        ["SHA-256", results["protocol_sha256"]],
        ["recipe", protocol.recipe],
        ["overrides", " ".join(protocol.overrides) or "–"],
        ["control", protocol.control],
        ["seeds", ", ".join(map(str, protocol.seeds))],
        ["contexts of evaluation", ", ".join(protocol.contexts)],
        ["primary outcome", protocol.primary],
        ["margin", f"{protocol.margin:g}"],
        ["arms may differ in", ", ".join(protocol.may_differ) or "nothing that pairs them"],
    ]
    rows = [
        [
            arm,
            ", ".join(map(str, protocol.seeds_of(arm))),
            " ".join(overrides) or "–",
            "; ".join(f"{key}: {old} → {new}" for key, (old, new) in results["changes"][arm].items()) or "–",
        ]
        for arm, overrides in protocol.arms.items()
    ]
    headings = ("arm", "seeds", "overrides", f"resolved, against {protocol.control}")
    note = " ".join(["Frozen before the first run.", *protocol.notes])
    return Section(
        "Protocol",
        note,
        [Table("Protocol", ("key", "value"), facts, names=2), Table("Arms", headings, rows, names=4)],
    )


def runs_section(protocol: Protocol, runs: Sequence[Run]) -> Section:
    from eval.pages.section import Section
    from eval.pages.table import Table

    rows = []
    for run in runs:
        done = run["status"] == DONE
        failures = "; ".join(
            f"{family} {name} {count}"
            for family, counts in (run.get("failures", {}) if done else {}).items()
            for name, count in counts.items()
        )
        questions = sum(run["after"][mode].get("failed", 0) for mode in protocol.modes) if done else 0
        rows.append(
            [
                str(run["seed"]),
                run["arm"],
                run["status"],
                str(run.get("steps", "–")),
                f"{run['timing']['wall_s']:.0f}" if done else "–",
                str(run.get("commit") or "–"),
                str(questions) if done else "–",
                failures or "–",
                " | ".join(" ".join(cause.split()) for cause in run.get("causes", [])) or "–",
            ]
        )
    headings = (
        "seed",
        "arm",
        "state",
        "steps",
        "seconds",
        "commit",
        "failed questions",
        "sessions failed or dropped",
        "failed starts",
    )
    commits = {run["commit"] for run in runs if run.get("commit")}
    note = "Seconds of the first arm of a seed include its cold start and the evaluation before training." + (
        f" The runs are of {len(commits)} commits." if len(commits) > 1 else ""
    )
    return Section("Runs", note, [Table("Runs", headings, rows, names=3)])
