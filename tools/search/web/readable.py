"""The readable text of what a web server sent."""

from __future__ import annotations

import logging
import re

import trafilatura

from mempo.prompts import CUT_MARK

# Its warnings repeat, page by page and without the address, what a failure to read tells with it.
logging.getLogger("trafilatura").setLevel(logging.CRITICAL)

# After the mark, or after quotes and brackets that close with the sentence; or at the end of a line.
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*(?=\s)|[。！？][”’」』）]*|(?=\n)")


def read_html(html: str | bytes) -> tuple[str, str]:
    """Title and readable text of an HTML page; both may be empty. Scripts, styles and navigation are left out.

    Bytes are decoded as their content suggests.
    """
    tree = trafilatura.load_html(html, max_size=len(html))  # the library unpacks: to no more than came
    if tree is None:
        return "", ""
    title = " ".join((tree.findtext(".//title") or "").split())
    # The second reading keeps more: it serves pages in which the first finds no main part.
    text = trafilatura.extract(tree, include_comments=False) or trafilatura.html2txt(tree)
    return title, text.strip()


def cut_text(text: str, max_chars: int) -> str:
    """The text if it has at most `max_chars` characters, else its beginning up to a sentence border, and a mark.

    The mark counts. Where no sentence ends in the second half, the cut is at a space or, without one, anywhere.
    """
    if len(text) <= max_chars:
        return text
    room = max_chars - len(CUT_MARK)
    head = text[: room + 1]  # one more, so that a border right behind the room is seen
    ends = [match.end() for match in _SENTENCE_END.finditer(head) if room // 2 <= match.end() <= room]
    space = head.rfind(" ", room // 2)
    end = ends[-1] if ends else space if space > 0 else room
    return text[:end].rstrip() + CUT_MARK
