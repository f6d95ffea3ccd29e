"""A page as the HTML parser of the standard library sees it."""

from __future__ import annotations

from html.parser import HTMLParser

OUTSIDE = (
    "src",
    "href",
    "srcset",
    "action",
    "formaction",
    "data",
    "poster",
    "xlink:href",
    "background",
    "ping",
)


class ParsedPage(HTMLParser):
    """Elements with their attributes, the rows of all tables, and the text of the scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.comments: list[str] = []
        self._inside = ""
        self.feed(text)
        self.close()

    @property
    def references(self) -> list[str]:
        """Attributes that could load or open something, but for anchors in the page."""
        return [
            f"{tag} {name}={value}"
            for tag, attributes in self.elements
            for name, value in attributes.items()
            if name in OUTSIDE and not (value or "").startswith("#")
        ]

    @property
    def handlers(self) -> list[str]:
        """Attributes that could run or style something."""
        return [
            f"{tag} {name}"
            for tag, attributes in self.elements
            for name in attributes
            if name.startswith("on") or name == "style"
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag in self.raw:
            self.raw[tag].append("")
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.raw:
            self.raw[self._inside][-1] += data
        elif self._inside in ("td", "th"):
            self.rows[-1][-1] += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)
