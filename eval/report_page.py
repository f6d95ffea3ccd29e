"""The report: one page, or the same numbers as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from eval.pages.document import document, readable
from eval.pages.section import Section
from eval.sealed_file import SEAL


def report_html(title: str, parts: Sequence[Section]) -> str:
    """The whole page."""
    body = Markup('<main class="page"><h1>{title}</h1>{parts}</main>').format(
        title=title, parts=Markup("").join(part.html() for part in parts)
    )
    return document(title, body)


def report_markdown(title: str, parts: Sequence[Section]) -> str:
    """Headings and tables; the numbers of the charts are among them."""
    return readable(
        "\n\n".join([f"<!-- {SEAL} -->", f"# {title}", *(part.markdown() for part in parts)]) + "\n"
    )
