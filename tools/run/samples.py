"""Sample trajectories in readable form: one Markdown file per step, from the records that training keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.run.files import write_text


def write_readable(folder: Path) -> int:
    """Writes step_N.md beside every step_N.jsonl that has none or an older one; returns how many were written."""
    written = 0
    for source in sorted(folder.glob("step_*.jsonl")):
        target = source.with_suffix(".md")
        if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
            continue
        records = [
            json.loads(line) for line in source.read_text(encoding="utf-8").splitlines() if line.strip()
        ]
        write_text(target, "\n\n".join(readable(record) for record in records) + "\n")
        written += 1
    return written


def readable(record: dict[str, Any]) -> str:
    """One trajectory: question, gold, outcome, then each turn with what was said about its memory."""
    scores = {score["turn"]: score for score in record.get("memory", [])}
    lines = [
        f"## {record['question']}",
        "",
        f"gold: {_answers(record.get('answers'))} | answer: {record.get('answer')} | reward: {record.get('reward')} "
        f"| stop: {record.get('stop')} | session: {record.get('session')}",
    ]
    for index, turn in enumerate(record["trajectory"]["turns"]):
        lines += ["", f"### Turn {index + 1}", "", f"memory: {turn['memory_text'] or '(none)'}"]
        if index in scores:
            lines.append(f"credit: {_score(scores[index])}")
        if turn.get("thought"):
            lines.append(f"thought: {turn['thought']}")
        action = turn["action"]
        lines.append(
            f"{action['kind']}: {action['text']}"
            + (f" ({action['problem']})" if action.get("problem") else "")
        )
        if turn.get("format_problem"):
            lines.append(f"format: {turn['format_problem']}")
        if turn.get("observation"):
            lines += ["", *(f"> {line}" for line in turn["observation"].splitlines())]
    return "\n".join(lines)


def _answers(answers: list[list[str]] | None) -> str:
    return "; ".join(" / ".join(aliases) for aliases in answers or [])


def _score(score: dict[str, Any]) -> str:
    if score.get("status") != "scored":
        return str(score.get("status"))
    return (
        f"P_mem {score['p_memory']:.3f}, reference {score['p_reference']:.3f}, reward {score['reward']:+.3f}"
    )
