"""Trajectories as a page: their text travels as JSON, and the page's script sets it as text only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eval.record import Record

HERE = Path(__file__).parent


def spread(records: Sequence[Record], most: int) -> list[Record]:
    """At most `most` records, evenly over the run."""
    if len(records) <= most:
        return list(records)
    return [records[index * len(records) // most] for index in range(most)]


def viewer_html(name: str, records: Sequence[Record], total: int) -> str:
    """The page.

    Args:
        total: how many trajectories the run holds; said where not all are shown.
    """
    from markupsafe import Markup

    from eval.pages.document import document, environment

    stops = sorted({record.stop for record in records if record.stop})
    body = environment(HERE).get_template("viewer.html.jinja").render(
        name=name, shown=len(records), total=total, stops=stops
    )  # fmt: skip
    return document(
        f"{name}: trajectories",
        Markup(body),
        style=(HERE / "viewer.css").read_text(encoding="utf-8"),
        script=(HERE / "viewer.js").read_text(encoding="utf-8"),
        data=[_plain(record) for record in records],
    )


def _plain(record: Record) -> dict[str, Any]:
    """JSON types, with the memory rewards worked out; the id can stand in an address."""
    from eval.pages.document import readable

    fields = {**asdict(record), "id": readable(record.id)}
    for turn, shown in zip(record.turns, fields["turns"], strict=True):
        if turn.score is not None:
            shown["score"]["reward"] = turn.score.reward
    return fields
