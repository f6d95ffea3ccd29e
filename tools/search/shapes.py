"""The bodies that clients of other projects send and expect: one superset serves all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tools.search.corpus import Document
from tools.search.index import Hit
from tools.search.settings import ServerSettings

_QUERIES = ("queries", "query_list", "query")
_TOPK = ("topk", "top_k", "k")


Body = TypeVar("Body", bound=BaseModel)


class BadRequest(ValueError):
    """A body that cannot be answered; the message names the field."""


class RetrieveBody(BaseModel):
    """Body of `/retrieve`: one of the names for queries, at most one for the number of results. Other keys are ignored."""

    model_config = ConfigDict(strict=True)

    queries: list[str] | None = None
    query_list: list[str] | None = None
    query: str | None = None
    topk: int | None = None
    top_k: int | None = None
    k: int | None = None
    return_scores: bool | None = None


class AccessBody(BaseModel):
    """Body of `/access`: pages by address or by title."""

    model_config = ConfigDict(strict=True)

    urls: list[str]


@dataclass(frozen=True)
class SearchRequest:
    """What a body asks for, whichever way it said it.

    Attributes:
        scores: with or without; None if the body does not say.
        single: it asked one `query`, and some such clients look for a flat list.
    """

    queries: list[str]
    topk: int
    scores: bool | None
    single: bool


def read_search(body: bytes, settings: ServerSettings) -> SearchRequest:
    """Raises BadRequest, naming the field, for anything else than one of the known shapes within the limits."""
    parsed = _parse(RetrieveBody, body)
    name, asked = _only(parsed, _QUERIES)
    if asked is None:
        raise BadRequest(f"no query: give one of {', '.join(_QUERIES)}")
    queries = [asked] if isinstance(asked, str) else list(asked)
    _check_queries(name, queries, settings)
    topk_name, topk = _only(parsed, _TOPK)
    if topk is not None and not 1 <= topk <= settings.max_topk:
        raise BadRequest(f"{topk_name}: {topk} given, 1 to {settings.max_topk} are allowed")
    return SearchRequest(
        queries, settings.default_topk if topk is None else topk, parsed.return_scores, isinstance(asked, str)
    )


def read_access(body: bytes, settings: ServerSettings) -> list[str]:
    """Addresses or titles. Raises BadRequest as `read_search` does."""
    urls = _parse(AccessBody, body).urls
    _check_queries("urls", urls, settings)
    return urls


def search_answer(request: SearchRequest, results: Sequence[Sequence[Hit]]) -> dict[str, Any]:
    """`result`: a list per query, as Search-R1 has it; for a single query also `results`, its list alone."""
    lists = [[_entry(hit, request.scores) for hit in hits] for hits in results]
    if not request.single:
        return {"result": lists}
    flat = [{**_entry(hit, None), "content": hit.document.contents} for hit in results[0]]
    return {"result": lists, "results": flat}


def page_answer(passages: Sequence[Document]) -> dict[str, Any] | None:
    """A page from its passages in order; None without any."""
    if not passages:
        return None
    text = "\n".join(passage.text for passage in passages)
    whole = Document(passages[0].id, passages[0].title, text, passages[0].url)
    return _document(whole)


def _entry(hit: Hit, scores: bool | None) -> dict[str, Any]:
    document = _document(hit.document)
    if scores is False:
        return document
    scored = {"document": document, "score": hit.score}
    # A client that does not say may expect either layout.
    return scored if scores else {**document, **scored}


def _document(document: Document) -> dict[str, Any]:
    entry = {
        "id": document.id,
        "contents": document.contents,
        "title": document.title,
        "text": document.text,
    }
    return entry if document.url is None else {**entry, "url": document.url}


def _parse(kind: type[Body], body: bytes) -> Body:
    try:
        return kind.model_validate(json.loads(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "body"
        raise BadRequest(f"{place}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"body: not JSON ({error})") from error


def _only(parsed: RetrieveBody, names: Sequence[str]) -> tuple[str, Any]:
    given = [(name, value) for name in names if (value := getattr(parsed, name)) is not None]
    if len(given) > 1:
        raise BadRequest(f"{' and '.join(name for name, _ in given)} are given; give one of them")
    return given[0] if given else (names[0], None)


def _check_queries(name: str, queries: Sequence[str], settings: ServerSettings) -> None:
    if not queries:
        raise BadRequest(f"{name}: the list is empty")
    if len(queries) > settings.max_queries:
        raise BadRequest(f"{name}: {len(queries)} given, at most {settings.max_queries} are allowed")
    for place, query in enumerate(queries):
        if len(query) > settings.max_query_chars:
            raise BadRequest(
                f"{name}.{place}: {len(query)} characters, at most {settings.max_query_chars} are allowed"
            )
