"""One scorer for answers, in training and in evaluation: normalisation, EM, F1, sub-EM.

Normalisation is SQuAD's (Rajpurkar et al. 2016), which HotpotQA, 2WikiMultihopQA and MuSiQue share: lower case, no
punctuation, no English articles, single spaces. Where it differs from theirs, by name:
- `compatibility`: Unicode NFKC first, so that full-width and other compatibility forms equal the plain ones. Accents, vowel
  signs and letter variants stay: `"Élan"` is not `"Elan"`, `"ё"` is not `"е"`.
- `punctuation`: that of Unicode goes too (category P), and minus signs as dashes do (`"−5"` is `"-5"`).
- `invisible`: format and control characters go (direction marks, zero-width space, byte order mark, soft hyphen), but a
  zero-width joiner or non-joiner inside a word of a script that spells with it stays (Persian, Indic scripts, emoji).
- `articles`: a text of articles alone keeps them, so that the answer `"A"` of a multiple choice can be right.
TriviaQA's own scorer puts a space where punctuation was (`"U.S."` is `"u s"` there and `"us"` here).

Edge cases, by rule:
- No answer (None), an empty or blank one, and a text of which normalisation leaves nothing (`"?!"`) score 0 in EM, F1 and
  sub-EM against every gold, one that itself normalises to nothing included. Such a gold can therefore never be answered
  rightly: the converters of `tools.data` leave those questions out and count them.
- Next to other words an article is none of the answer: the gold `"A"` equals the prediction `"(a)"`, but neither `"The"` nor
  `"Option A"`.
- A word is what stands between spaces. Cyrillic, Greek or Arabic texts have words as English does. A text in a script
  without spaces (Chinese, Japanese, Thai) is one word: its F1 is its EM, and sub-EM finds it only between spaces.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_ARTICLES = re.compile(r"\b(a|an|the)\b")
# What SQuAD's scorer takes for punctuation (that of ASCII) and Unicode does not.
_ASCII_SYMBOLS = "$+<=>^`|~"
# Minus signs: the one character of Unicode's property Dash that is no punctuation, and two that are called so.
_MINUS_SIGNS = "\u2212\u02d7\u2796"
_JOINERS = "\u200c\u200d"
_JOINER_RUN = re.compile(f"[{_JOINERS}]+")
_FIRST_JOINED = "\u0590"  # Latin, Greek, Cyrillic and Armenian stand before it, and join nothing


def normalize(text: str) -> str:
    """The text as it is compared; may be empty (then it matches nothing, not even another empty one)."""
    lowered = unicodedata.normalize("NFKC", text).lower()
    bare = "".join(filter(_is_compared, lowered))
    if any(joiner in bare for joiner in _JOINERS):
        bare = _JOINER_RUN.sub(_spelling, bare)
    return " ".join(_ARTICLES.sub(" ", bare).split()) or " ".join(bare.split())


def only_articles(text: str) -> bool:
    """Whether a text is one or several articles and nothing else: `"A"`, `"(the)"`."""
    words = normalize(text).split()
    return bool(words) and all(_ARTICLES.fullmatch(word) for word in words)


@lru_cache(maxsize=65536)
def _is_compared(char: str) -> bool:
    category = unicodedata.category(char)
    if category in ("Cc", "Cf"):
        return char.isspace() or char in _JOINERS
    return category[0] != "P" and char not in _ASCII_SYMBOLS and char not in _MINUS_SIGNS


def _spelling(joiners: re.Match[str]) -> str:
    """A run of joiners as it is compared: kept between two characters of a script that spells with them."""
    text, start, end = joiners.string, joiners.start(), joiners.end()
    around = text[max(start - 1, 0) : start] + text[end : end + 1]
    inside = len(around) == 2 and min(around) >= _FIRST_JOINED and not any(map(str.isspace, around))
    return joiners.group() if inside else ""


def exact_match(prediction: str, aliases: Sequence[str]) -> bool:
    """Whether the normalised prediction equals a normalised alias; nothing matches an empty text."""
    said = normalize(prediction)
    return bool(said) and any(said == normalize(alias) for alias in aliases)


def sub_exact_match(prediction: str, aliases: Sequence[str]) -> bool:
    """Whether a normalised alias stands in the prediction as whole words. Reported, never rewarded."""
    said = f" {normalize(prediction)} "
    return any(normalize(alias) and f" {normalize(alias)} " in said for alias in aliases)


def f1(prediction: str, aliases: Sequence[str]) -> float:
    """Best F1 over words against the aliases; 0 without a word in common, and without words at all.

    As in HotpotQA's scorer, yes, no and noanswer score only when they are equal.
    """
    return max((_f1(normalize(prediction), normalize(alias)) for alias in aliases), default=0.0)


def _f1(said: str, gold: str) -> float:
    if said != gold and {said, gold} & {"yes", "no", "noanswer"}:
        return 0.0
    common = sum((Counter(said.split()) & Counter(gold.split())).values())
    if not common:
        return 0.0
    precision, recall = common / len(said.split()), common / len(gold.split())
    return 2 * precision * recall / (precision + recall)


def split_objectives(answer: str, objectives: int) -> list[str]:
    """The answers of one text, by position.

    One objective takes the text as it is, semicolons and all. Missing answers are empty, and so is what stands between
    two semicolons in a row: `"a;;b"` answers the first and the third question. Surplus ones are dropped (they are
    counted in `AnswerScore.given`).
    """
    if objectives == 1:
        return [answer.strip()]
    parts = [part.strip() for part in answer.split(";")]
    return (parts + [""] * objectives)[:objectives]


@dataclass(frozen=True)
class AnswerScore:
    """Scores of one answer text; the lists hold one value per objective.

    Attributes:
        given: how many answers the text holds; may differ from the number of objectives.
    """

    em: list[bool]
    f1: list[float]
    sub_em: list[bool]
    given: int

    @property
    def em_sum(self) -> float:
        return float(sum(self.em))

    @property
    def em_mean(self) -> float:
        return self.em_sum / len(self.em)

    @property
    def f1_mean(self) -> float:
        return sum(self.f1) / len(self.f1)

    @property
    def sub_em_mean(self) -> float:
        return sum(self.sub_em) / len(self.sub_em)


def score_answer(prediction: str | None, answers: Sequence[Sequence[str]]) -> AnswerScore:
    """Scores a prediction (None: no answer was given) against one alias list per objective, position by position."""
    said = split_objectives(prediction or "", len(answers))
    given = (
        0 if not (prediction or "").strip() else 1 if len(answers) == 1 else (prediction or "").count(";") + 1
    )
    pairs = list(zip(said, answers, strict=True))
    return AnswerScore(
        em=[exact_match(text, aliases) for text, aliases in pairs],
        f1=[f1(text, aliases) for text, aliases in pairs],
        sub_em=[sub_exact_match(text, aliases) for text, aliases in pairs],
        given=given,
    )
