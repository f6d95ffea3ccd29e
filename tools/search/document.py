"""A passage, as it is indexed and sent."""

from __future__ import annotations

from dataclasses import dataclass

from tools.search.wire import join_contents

LONGEST_ADDRESS = 2_000  # characters; a server refuses much longer ones


@dataclass(frozen=True)
class Document:
    """One passage. `contents` is how search servers send it: the quoted title, a newline, the text."""

    id: str
    title: str
    text: str
    url: str | None = None

    @property
    def contents(self) -> str:
        return join_contents(self.title, self.text)

    @property
    def address(self) -> str:
        """What gives the page that this passage belongs to: its url, or else its title, or else `id:` and its id."""
        for name in (self.url, self.title):
            if name and name.strip() and len(name) <= LONGEST_ADDRESS:
                return name
        return f"id:{self.id}"
