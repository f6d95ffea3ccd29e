"""A part of a page: a heading, a sentence, tables and charts; as HTML or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from eval.pages.chart import Chart
from eval.pages.document import HERE, environment
from eval.pages.table import Table, plain


@dataclass(frozen=True)
class Section:
    """`details` are tables that the page keeps folded, such as the numbers behind a chart."""

    title: str
    note: str
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    details: Sequence[Table] = ()

    def html(self) -> Markup:
        return Markup(environment(HERE).get_template("section.html.jinja").render(section=self))

    def markdown(self) -> str:
        """Every table of the section; what the charts show is in them."""
        parts = [f"## {plain(self.title)}", plain(self.note)]
        parts += [table.markdown() for table in (*self.tables, *self.details)]
        return "\n\n".join(parts)
