"""The main numbers of a run, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table


def summary_table(title: str, summary: Mapping[str, Any]) -> Table:
    """Means with 95 % intervals (`eval.summary.summarize`); scores of several objectives also as sums."""
    table = Table(title=title, show_header=False)
    table.add_row("questions", str(summary["n"]))
    for name, key in (("EM", "em"), ("F1", "f1")):
        table.add_row(name, f"{summary[key]:.3f} ± {summary[f'{key}_se']:.3f}  {_interval(summary, key)}")
    table.add_row("sub-EM", f"{summary['sub_em']:.3f}  {_interval(summary, 'sub_em')}")
    if set(summary["by_objectives"]) != {"1"}:
        sums = ", ".join(f"{summary[f'{key}_sum']:.2f}" for key in ("em", "f1", "sub_em"))
        table.add_row("sums: EM, F1, sub-EM", sums)
    table.add_row("right format", f"{summary['format_share']:.3f}")
    table.add_row("turns, searches", f"{summary['turns']:.2f}, {summary['searches']:.2f}")
    # Over chat messages tokens are estimates, and named so.
    kind = "estimated" if "estimated_total_tokens" in summary else ""
    total, peak, dependency = (
        summary["_".join(filter(None, (kind, name)))]
        for name in ("total_tokens", "peak_tokens", "dependency")
    )
    table.add_row(f"{kind} tokens: total, peak".strip(), f"{total:.0f}, {peak:.0f}")
    table.add_row(f"{kind} dependency".strip(), f"{dependency:.3g}")
    if summary["support_n"]:
        shares = ", ".join(f"{summary[f'support_by_{key}']:.3f}" for key in ("search", "memory"))
        table.add_row("support: searched, in memory", f"{shares}  (of {summary['support_n']} questions)")
    table.add_row("seconds", f"{summary['seconds']:.2f}")
    for name in ("stop", "format_reasons", "failures"):
        if summary[name]:
            table.add_row(name.replace("_", " "), ", ".join(f"{k} {v}" for k, v in summary[name].items()))
    return table


def _interval(summary: Mapping[str, Any], key: str) -> str:
    low, high = summary[f"{key}_ci"]
    return f"(95 %: {low:.3f} to {high:.3f})"
