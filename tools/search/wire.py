"""The Search-R1 wire format: the `contents` field of a passage, and the body of a `/retrieve` response.

Standard library and `mempo` only, as agents import it on every machine they run on.
"""

from __future__ import annotations

from typing import Any

from mempo.outside_text import load_json


class WireError(ValueError):
    """A response body is not in the format; says where."""


def join_contents(title: str, text: str) -> str:
    """Title and text in the `contents` layout of wiki-18; the inverse of `split_contents` for one-line titles."""
    return f'"{title}"\n{text}'


def split_contents(contents: str) -> tuple[str, str]:
    """Title and text of a `contents` field: the first line, less one pair of quotes around it, is the title."""
    title, _, text = contents.partition("\n")
    title = title.strip()
    if len(title) >= 2 and title.startswith('"') and title.endswith('"'):
        title = title[1:-1]
    return title, text


def parse_results(body: bytes, queries: int) -> list[list[tuple[str, str]] | str]:
    """(title, text) of each result of each query, from a response with or without scores; or why a query failed.

    Failed queries have their reasons in `errors`, a list beside `result` with null for the others.

    Raises:
        WireError: anything else. A body in another format must not pass for "no results".
    """
    try:
        content = load_json(body)
    except ValueError as error:
        raise WireError(f"the response is not JSON: {body[:100]!r}") from error
    lists = content.get("result") if isinstance(content, dict) else None
    if (
        not isinstance(lists, list)
        or len(lists) != queries
        or not all(isinstance(hits, list) for hits in lists)
    ):
        raise WireError(
            f'the response is not {{"result": [[...], ...]}} with one list per query ({queries} asked)'
        )
    errors = content.get("errors") or [None] * queries
    if not isinstance(errors, list) or len(errors) != queries:
        raise WireError(f"`errors` is not a list with one entry per query ({queries} asked)")
    if not all(error is None or (isinstance(error, str) and error) for error in errors):
        raise WireError("`errors` holds something else than reasons and nulls")
    return [
        [_passage(hit, f"{place}.{rank}") for rank, hit in enumerate(hits)] if error is None else str(error)
        for place, (hits, error) in enumerate(zip(lists, errors, strict=True))
    ]


def _passage(hit: Any, place: str) -> tuple[str, str]:
    document = hit.get("document", hit) if isinstance(hit, dict) else None
    contents = document.get("contents") if isinstance(document, dict) else None
    if not isinstance(contents, str) or not contents.strip():
        raise WireError(f"result.{place} has no document with text in `contents`")
    title, text = split_contents(contents)
    return title, text.strip("\n")
