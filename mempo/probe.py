"""The probe: the text that states the gold answer in the agent's own form, and which of its tokens are the answer.

Source: MemPO (arXiv 2603.00680), memory reward. Answer tokens are found by character offsets, never by counting.
"""

from __future__ import annotations

from dataclasses import dataclass

from mempo.boxed import CLOSING, OPENING
from mempo.tokens import ChatTokens


@dataclass(frozen=True)
class ProbeFormat:
    """How an agent states an answer: `before + answer + after`, on a line of its own."""

    before: str
    after: str


ANSWER_TAG = ProbeFormat(
    before="<think>\nI have sufficient information to provide the final answers.\n</think>\n<answer>\n",
    after="\n</answer>",
)

BOXED_ANSWER = ProbeFormat(before=OPENING, after=CLOSING)

SEPARATOR = "; "
CLOSED = b"</mem>"


@dataclass(frozen=True)
class Probe:
    """One sequence to score: log p of the tokens of `probe_ids` where `answer_mask` is 1, after `context_ids`."""

    context_ids: list[int]
    probe_ids: list[int]
    answer_mask: list[int]

    def __post_init__(self) -> None:
        if len(self.probe_ids) != len(self.answer_mask):
            raise ValueError(f"probe: {len(self.answer_mask)} mask entries for {len(self.probe_ids)} tokens")
        if not any(self.answer_mask):
            raise ValueError("probe: no token belongs to the answer")

    def __len__(self) -> int:
        return len(self.context_ids) + len(self.probe_ids)


@dataclass(frozen=True)
class ProbeText:
    """A probe before it meets a context: ids from the format's first character on, and the part each token covers."""

    ids: list[int]
    owners: list[int]  # index of the objective, -1 for the frame and for separators

    def mask(self, objective: int | None) -> list[int]:
        """1 on the tokens of one objective, or of all (None); a separator predicted by itself is no answer."""
        return [int(owner >= 0 if objective is None else owner == objective) for owner in self.owners]


def stated(gold: str) -> str:
    """A gold answer as a probe states it: blanks at its ends would merge with the frame and count as answer."""
    return gold.strip()


def probe_text(tokens: ChatTokens, form: ProbeFormat, answers: list[str]) -> ProbeText:
    """The probe that states `answers`, one per objective, joined by "; ".

    Raises:
        ValueError: for a blank answer.
    """
    answers = [stated(gold) for gold in answers]
    for number, gold in enumerate(answers, 1):
        if not gold:
            raise ValueError(f"probe: objective {number}: the gold answer is blank")
    ids, owners = tokens.encode_around(form.before, answers, form.after, SEPARATOR)
    return ProbeText(ids, owners)


def closed_memory(tokens: ChatTokens, ids: list[int]) -> list[int]:
    """Ids that end with the token that closes a memory, so that they end with `</mem>` and one newline.

    That token may hold the beginning of what the model wrote next (`><`, `>\n\n`), or lack the newline. Then, and only
    then, it gives way to the ids of its own part and a newline, encoded together: a probe goes on from a memory
    token by token as if the thought had followed on the next line, whatever did follow. Ids without `</mem>` stay.
    """
    if not ids:
        return ids
    last = tokens.pieces.token_bytes(ids[-1])
    # Every token but the padding of a vocabulary is a byte at least, so the tag lies within the last few.
    before = b"".join(map(tokens.pieces.token_bytes, ids[-len(CLOSED) : -1]))[1 - len(CLOSED) :]
    place = (before + last).find(CLOSED)
    if place < 0:
        return ids
    end = place + len(CLOSED) - len(before)
    if last[end:] == b"\n":
        return ids
    return ids[:-1] + tokens.encode_own(last[:end].decode("utf-8", errors="replace") + "\n")


def attach(
    tokens: ChatTokens,
    context_ids: list[int],
    text: ProbeText,
    objective: int | None,
    keep_leading_newline: bool,
) -> Probe:
    """A probe after a context.

    The probe starts on a new line: a newline is put first unless the context already ends in one, or in any case with
    `keep_leading_newline`.
    """
    on_new_line = bool(context_ids) and tokens.pieces.token_bytes(context_ids[-1]).endswith(b"\n")
    lead = tokens.encode_own("\n") if keep_leading_newline or not on_new_line else []
    return Probe(context_ids, lead + text.ids, [0] * len(lead) + text.mask(objective))
