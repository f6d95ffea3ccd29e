"""Text → words → index terms."""

from __future__ import annotations

import re
import threading
import unicodedata

import Stemmer

# One token per CJK character (such text has no spaces), otherwise runs of letters and digits.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_POSSESSIVE = re.compile(r"'s\b")
_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")


class Analyzer:
    """Text → index terms: accents dropped, case folded, English (Snowball) stems. Safe to call from many threads."""

    def __init__(self) -> None:
        self._local = threading.local()  # a Stemmer keeps state between calls

    def __call__(self, text: str) -> list[str]:
        return self.stems(words(text))

    def stems(self, of: list[str]) -> list[str]:
        """The term of each word."""
        stemmer = getattr(self._local, "stemmer", None)
        if stemmer is None:
            stemmer = self._local.stemmer = Stemmer.Stemmer("english")
        return list(stemmer.stemWords(of))


def words(text: str) -> list[str]:
    """The words of a text, in order, without accents, possessive 's and case."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
        text = text.replace("\u2019", "'")
    return _WORD.findall(_POSSESSIVE.sub("", text.casefold()))


def without_qualifier(title: str) -> str:
    """A title less a remark in brackets at its end, such as `(film)`."""
    return _QUALIFIER.sub("", title)
