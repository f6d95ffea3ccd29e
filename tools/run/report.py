"""report.html: the run on one page, with the reward curve; and the table that ends the command."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from rich.table import Table

from mempo.step_metrics import reference_name
from tools.run.files import write_text
from tools.run.metrics import Step, values
from tools.run.summary import MODES

P_REFERENCE = "memory/p_reference"
CURVES = (
    # title, metrics with their labels
    ("Training reward", (("trajectory/reward_mean", "reward"), ("trajectory/em", "EM"))),
    ("Answer probability", (("memory/p_memory", "memory alone"), (P_REFERENCE, "the reference"))),
    (
        "Memory",
        (
            ("memory/nonzero_share", "turns with memory advantage"),
            ("memory/share_positive", "positive rewards"),
        ),
    ),
)
COLOURS = ("#1b6ca8", "#c8553d")
WIDTH, HEIGHT, LEFT, BOTTOM = 560, 220, 46, 26
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}"
)


def number(value: Any, digits: int = 3) -> str:
    """A number for a table; a dash for None."""
    if value is None:
        return "–"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def evaluation_rows(summary: dict[str, Any]) -> list[list[str]]:
    """One row per context mode: EM and F1 before and after, changed answers, p."""
    rows = []
    for mode in MODES:
        before, after = summary["eval"]["before"].get(mode), summary["eval"]["after"].get(mode)
        if not before or not after:
            continue
        pair = summary["eval"]["paired"].get(mode, {})
        rows.append(
            [
                mode,
                f"{before['em']:.3f} ± {before['em_se']:.3f}",
                f"{after['em']:.3f} ± {after['em_se']:.3f}",
                f"{before['f1']:.3f}",
                f"{after['f1']:.3f}",
                f"+{pair.get('only_after', '–')} / -{pair.get('only_before', '–')}",
                f"{pair['p']:.2g}" if "p" in pair else "–",
                str(after["n"]),
            ]
        )
    return rows


HEADINGS = (
    "context",
    "EM before",
    "EM after",
    "F1 before",
    "F1 after",
    "gained / lost",
    "p (after > before)",
    "n",
)


def final_table(summary: dict[str, Any]) -> Table:
    """The evaluation as a table for the terminal."""
    table = Table(title="held-out questions, greedy", title_justify="left")
    for position, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if position == 0 else "right")
    for row in evaluation_rows(summary):
        table.add_row(*row)
    return table


def final_lines(summary: dict[str, Any]) -> list[str]:
    """What the command says last about training, in words."""
    rows, reward, memory = summary["rows"], summary["reward"], summary["memory"]
    lost = summary.get("lost_loggers")
    return [
        f"{summary['steps']} steps; rows produced {rows['produced']}, {_dropped(rows)}transferred {rows['transferred']}, "
        f"consumed {rows['consumed']}; failed sessions {summary['failures'].get('total', 0)}",
        f"training reward: first steps {number(reward['first5'])}, last steps {number(reward['last5'])}, "
        f"standard error of the difference {number(reward['se'])}",
        f"memories: {memory['scored']} scored, {memory['no_signal']} without signal, {memory['unclosed']} unclosed; "
        f"memory advantage on {number(memory['nonzero_share'], 2)} of the later turns",
        *([f"loggers that failed on the way: {', '.join(lost)}; train.log says why"] if lost else []),
    ]


def _dropped(rows: dict[str, int | float]) -> str:
    """Named where dynamic sampling dropped some; a summary of an older run does not know the count."""
    return f"dropped {rows['dropped']}, " if rows.get("dropped") else ""


def curve(title: str, series: list[tuple[str, list[float]]]) -> str:
    """Lines over the steps as an SVG; the vertical axis begins at 0 unless a value is negative."""
    shown = [(label, points) for label, points in series if points]
    if not shown:
        return ""
    low = min(0.0, min(min(points) for _, points in shown))
    high = max(max(points) for _, points in shown)
    high = high if high > low else low + 1.0
    count = max(len(points) for _, points in shown)

    def place(index: int, value: float) -> str:
        x = LEFT + (WIDTH - LEFT - 8) * (index / max(count - 1, 1))
        y = 8 + (HEIGHT - BOTTOM - 8) * (1 - (value - low) / (high - low))
        return f"{x:.1f},{y:.1f}"

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">']
    for fraction in (0.0, 0.5, 1.0):
        value = low + fraction * (high - low)
        y = 8 + (HEIGHT - BOTTOM - 8) * (1 - fraction)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 8}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" font-size="12">{value:.2f}</text>'
        )
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 8}" font-size="12">step 1</text>')
    parts.append(
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end" font-size="12">step {count}</text>'
    )
    for (label, points), colour in zip(shown, COLOURS, strict=False):
        line = " ".join(place(index, value) for index, value in enumerate(points))
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"><title>{escape(label)}</title></polyline>'
        )
    parts.append("</svg>")
    legend = ", ".join(
        f'<span style="color:{colour}">{escape(label)}</span>'
        for (label, _), colour in zip(shown, COLOURS, strict=False)
    )
    return f"<h2>{escape(title)}</h2><p>{legend}</p>{''.join(parts)}"


def write_report(path: Path, name: str, summary: dict[str, Any], steps: list[Step]) -> None:
    """Writes the page; it needs no other file."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in HEADINGS)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in evaluation_rows(summary)
    )
    table = f"<h2>Held-out questions, greedy</h2><table><tr>{head}</tr>{body}</table>" if body else ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in final_lines(summary))
    against = {P_REFERENCE: reference_name(steps)}  # differs from run to run
    curves = "".join(
        curve(title, [(against.get(metric, label), values(steps, metric)) for metric, label in metrics])
        for title, metrics in CURVES
    )
    write_text(
        path,
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(name)}</title><style>{STYLE}</style>'
        f"<h1>{escape(name)}</h1>{lines}{table}{curves}</html>\n",
    )
