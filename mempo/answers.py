"""One scorer for answers, in training and in evaluation: normalisation, EM, F1, sub-EM.

Normalisation is SQuAD's (Rajpurkar et al. 2016): lower case, no punctuation, no English articles, single spaces; plus
Unicode NFKC and Unicode punctuation, so that other scripts are treated alike.

Edge cases, by rule:
- No answer (None), an empty or blank one, and a text of which normalisation leaves nothing (`"?!"`, `"the"`, `"A"`) score 0
  in EM, F1 and sub-EM against every gold, one that itself normalises to nothing included. Such a gold can therefore
  never be answered rightly: the converters of `tools.data` leave those questions out and count them.
- A word is what stands between spaces. Cyrillic, Greek or Arabic texts have words as English does. A text in a script
  without spaces (Chinese, Japanese, Thai) is one word: its F1 is its EM, and sub-EM finds it only between spaces.
- Full-width and other compatibility forms equal the plain ones (NFKC). Accents, vowel signs and letter variants stay:
  `"Élan"` is not `"Elan"`, `"ё"` is not `"е"`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize(text: str) -> str:
    """The text as it is compared; may be empty (then it matches nothing, not even another empty one)."""
    lowered = unicodedata.normalize("NFKC", text).lower()
    bare = "".join(
        char for char in lowered if not unicodedata.category(char).startswith("P") and char not in "$+<=>^`|~"
    )
    return " ".join(_ARTICLES.sub(" ", bare).split())


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
