"""Documents from the web: search results, whose text is a snippet, and pages."""

from __future__ import annotations

from tools.search.document import Document


def web_document(url: str, title: str, text: str) -> Document:
    """A document of foreign strings, made safe to send. Its address is its `id` too, and its title if it has none."""
    url = clean(url)
    return Document(url, clean(" ".join(title.split())) or url, clean(text).strip(), url)


def clean(text: str) -> str:
    """The text with `?` for lone surrogates, which JSON may hold and UTF-8 may not."""
    return text.encode("utf-8", "replace").decode()
