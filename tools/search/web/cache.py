"""Answers from the web on disk, so that an evaluation can be repeated without the web.

One JSON file per request: `<folder>/<2 digits>/<SHA-256 of kind, base URL and request>.json`. Keys of APIs are no part
of a request and reach neither names nor contents.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from tools.search.client import SearchFailure
from tools.search.settings import ServerError

T = TypeVar("T")
Mode = Literal["use", "replay", "refresh"]


@dataclass(frozen=True)
class CacheKey:
    """What was asked: of which kind, of whom, and what exactly (plain JSON values, everything the answer depends on)."""

    kind: str
    base_url: str
    request: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 in hexadecimal; equal requests have equal digests, whatever the order of their fields."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.kind} {self.base_url} {json.dumps(dict(self.request), ensure_ascii=False)}"


class WebCache:
    """Keeps answers. Failures are not kept, empty answers are. Any number of processes may share a folder.

    Modes: `use` reads, and fetches and writes what is missing; `replay` only reads; `refresh` only fetches and writes.
    """

    def __init__(self, folder: str | Path, mode: Mode = "use") -> None:
        """Raises ServerError for another mode, and for a folder that is none."""
        if mode not in get_args(Mode):
            raise ServerError(f"web cache: mode is {mode!r}; known are {', '.join(get_args(Mode))}")
        self.folder, self.mode = Path(folder), mode
        if self.folder.exists() and not self.folder.is_dir():
            raise ServerError(f"web cache: {folder} is a file; give a folder")
        if mode == "replay" and not self.folder.exists():
            raise ServerError(f"web cache: {folder} does not exist, so there is nothing to replay")

    async def answer(self, key: CacheKey, shape: TypeAdapter[T], fetch: Callable[[], Awaitable[T]]) -> T:
        """The kept answer, or that of `fetch`, which is kept then.

        Args:
            shape: turns answers into JSON values and back.

        Raises:
            SearchFailure: what `fetch` raises; or `not_in_cache` when replaying; or `cache` if a file cannot be read
                or written.
        """
        if self.mode != "refresh" and (kept := await asyncio.to_thread(self._read, key, shape)):
            return kept[0]
        if self.mode == "replay":
            raise SearchFailure(
                "not_in_cache",
                f"{self.folder} holds no answer to {key}; record it with cache mode `use`, then replay",
            )
        answer = await fetch()
        await asyncio.to_thread(self._write, key, shape.dump_python(answer, mode="json"))
        return answer

    def _path(self, key: CacheKey) -> Path:
        digest = key.digest
        return self.folder / digest[:2] / f"{digest}.json"

    def _read(self, key: CacheKey, shape: TypeAdapter[T]) -> tuple[T] | None:
        """The answer, in a tuple as it may be falsy; None if there is none."""
        path = self._path(key)
        try:
            return (shape.validate_python(json.loads(path.read_bytes())["answer"]),)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SearchFailure("cache", f"{path}: cannot be read: {error.strerror or error}") from error
        except (ValidationError, ValueError, KeyError, TypeError) as error:
            raise SearchFailure(
                "cache", f"{path}: damaged ({type(error).__name__}); delete the file"
            ) from error

    def _write(self, key: CacheKey, answer: Any) -> None:
        """Under another name first: whoever reads meanwhile finds a whole file or none."""
        path = self._path(key)
        scratch = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        entry = asdict(key) | {"written": datetime.now(UTC).isoformat(timespec="seconds"), "answer": answer}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                text = json.dumps(entry, ensure_ascii=False, indent=1)
                scratch.write_text(text, encoding="utf-8", errors="replace")
                os.replace(scratch, path)
            finally:
                scratch.unlink(missing_ok=True)
        except OSError as error:
            raise SearchFailure("cache", f"{path}: cannot be written: {error.strerror or error}") from error
