"""The search corpus of a set of questions: their paragraphs, each once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from tools.data.question import Paragraph


def passage_id(paragraph: Paragraph) -> str:
    """A name that depends on the content alone, so that it stays the same whatever else is in the corpus."""
    return hashlib.sha256(f"{paragraph.title}\n{paragraph.text}".encode()).hexdigest()[:16]


def write_corpus(path: Path, paragraphs: Iterable[Paragraph]) -> dict[str, int]:
    """Writes `{id, title, text}` lines in order of first appearance.

    Returns:
        counts: `passages` written, `repeated_passages` (title and text of one already written) and `blank_passages`
        (without text; data sets have some among the distractors) left out.
    """
    written: set[str] = set()
    repeated = blank = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for paragraph in paragraphs:
            if not paragraph.text:
                blank += 1
                continue
            name = passage_id(paragraph)
            if name in written:
                repeated += 1
                continue
            written.add(name)
            line = {"id": name, "title": paragraph.title, "text": paragraph.text}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return {"passages": len(written), "repeated_passages": repeated, "blank_passages": blank}
