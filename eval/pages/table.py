"""A table of text cells, shown as HTML by the templates and as Markdown here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MARKUP = re.compile(r"([\\`*\[\]<>&|])")


@dataclass(frozen=True)
class Table:
    """Cells are text. The first `names` columns hold names and stand left, the others numbers and stand right."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1

    def markdown(self) -> str:
        """The table in GitHub's Markdown, its title above it."""
        rule = [":--" if column < self.names else "--:" for column in range(len(self.headings))]
        lines = [self.headings, rule, *self.rows]
        texts = [lines[0], *lines[2:]]
        cells = [_line([plain(cell) for cell in row]) for row in texts]
        return "\n".join([f"**{plain(self.title)}**", "", cells[0], _line(rule), *cells[1:]])


def plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
