"""The bodies that clients of other projects send and expect: one superset serves all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, WithJsonSchema

from tools.search.batching import Outcome
from tools.search.client import SearchFailure
from tools.search.document import Document
from tools.search.index import Hit
from tools.search.settings import ServerSettings

_QUERIES = ("queries", "query_list", "query")
_TOPK = ("topk", "top_k", "k")


Body = TypeVar("Body", bound=BaseModel)
# Looked at one by one, so that what is no text fails in its own place.
Texts = Annotated[list[Any], WithJsonSchema({"type": "array", "items": {"type": "string"}})]


class BadRequest(ValueError):
    """A body that cannot be answered; the message names the field."""


class BadQuery(ValueError):
    """One text of a body that cannot be searched or opened; stands in its place. The message names the place."""


class RetrieveBody(BaseModel):
    """Body of `/retrieve`: one of the names for queries, at most one for the number of results. Other keys are ignored."""

    model_config = ConfigDict(strict=True)

    queries: Texts | None = None
    query_list: Texts | None = None
    query: str | None = None
    topk: int | None = None
    top_k: int | None = None
    k: int | None = None
    return_scores: bool | None = None


class AccessBody(BaseModel):
    """Body of `/access`: pages by address or by title."""

    model_config = ConfigDict(strict=True)

    urls: Texts


@dataclass(frozen=True)
class SearchRequest:
    """What a body asks for, whichever way it said it.

    Attributes:
        queries: what to search, or why not, in the order of the body.
        scores: with or without; None if the body does not say.
        single: it asked one `query`, and some such clients look for a flat list.
    """

    queries: list[str | BadQuery]
    topk: int
    scores: bool | None
    single: bool


def read_search(body: bytes, settings: ServerSettings) -> SearchRequest:
    """Raises BadRequest, naming the field, for anything else than one of the known shapes within the limits."""
    parsed = _parse(RetrieveBody, body)
    name, asked = _only(parsed, _QUERIES)
    if asked is None:
        raise BadRequest(f"no query: give one of {', '.join(_QUERIES)}")
    texts = [asked] if isinstance(asked, str) else asked
    _check_count(name, len(texts), settings.max_queries)
    topk_name, topk = _only(parsed, _TOPK)
    if topk is not None and not 1 <= topk <= settings.max_topk:
        raise BadRequest(f"{topk_name}: {topk} given, 1 to {settings.max_topk} are allowed")
    topk = settings.default_topk if topk is None else topk
    if len(texts) * topk > settings.max_results:
        raise BadRequest(
            f"{name}: {len(texts)} with {topk} results each, at most {settings.max_results} results are allowed; "
            "send fewer at a time"
        )
    return SearchRequest(
        _checked(name, texts, settings), topk, parsed.return_scores, single=isinstance(asked, str)
    )


def read_access(body: bytes, settings: ServerSettings) -> list[str | BadQuery]:
    """Addresses or titles. Raises BadRequest as `read_search` does."""
    urls = _parse(AccessBody, body).urls
    _check_count("urls", len(urls), settings.max_pages)
    return _checked("urls", urls, settings)


def search_answer(request: SearchRequest, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """`result`: a list per query, as Search-R1 has it; for a single query also `results`, its list alone.

    Where queries failed, their lists are empty and `errors` has their reasons, null for the others.
    """
    lists = [[_entry(hit, request.scores) for hit in hits] for hits in map(_hits, outcomes)]
    answer: dict[str, Any] = {"result": lists, **_errors(outcomes)}
    if request.single:
        answer["results"] = [
            {**_entry(hit, None), "content": hit.document.contents} for hit in _hits(outcomes[0])
        ]
    return answer


def pages_answer(pages: Sequence[Sequence[Document] | Exception]) -> dict[str, Any]:
    """`result`: a page or null per address; `errors` as in `search_answer`."""
    found = [None if isinstance(page, Exception) else page_answer(page) for page in pages]
    return {"result": found, **_errors(pages)}


def reason(error: Exception) -> str:
    """What is said of a query that failed."""
    said = str(error) or type(error).__name__
    return f"{error.cause}: {said}" if isinstance(error, SearchFailure) else said


def _hits(outcome: Outcome) -> Sequence[Hit]:
    return () if isinstance(outcome, Exception) else outcome


def _errors(outcomes: Sequence[Any]) -> dict[str, list[str | None]]:
    if not any(isinstance(outcome, Exception) for outcome in outcomes):
        return {}
    return {"errors": [reason(each) if isinstance(each, Exception) else None for each in outcomes]}


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
    return {
        "id": document.id,
        "contents": document.contents,
        "title": document.title,
        "text": document.text,
        "url": document.address,
    }


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


def _check_count(name: str, count: int, limit: int) -> None:
    if count > limit:
        raise BadRequest(f"{name}: {count} given, at most {limit} are allowed")


def _checked(name: str, texts: Sequence[Any], settings: ServerSettings) -> list[str | BadQuery]:
    longest = settings.max_query_chars
    checked: list[str | BadQuery] = []
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            checked.append(BadQuery(f"{name}.{place}: a string is expected, got {type(text).__name__}"))
        elif len(text) > longest:
            checked.append(BadQuery(f"{name}.{place}: {len(text)} characters, at most {longest} are allowed"))
        elif not text.strip():
            checked.append(BadQuery(f"{name}.{place}: blank"))
        else:
            checked.append(text)
    return checked
