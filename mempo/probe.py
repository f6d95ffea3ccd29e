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
    owners: list[int]  # index of the objective, len(answers) for a separator, -1 for the frame

    def mask(self, objective: int | None) -> list[int]:
        """1 on the tokens of one objective, or of the whole answer with its separators (None)."""
        return [int(owner >= 0 if objective is None else owner == objective) for owner in self.owners]


def probe_text(tokens: ChatTokens, form: ProbeFormat, answers: list[str]) -> ProbeText:
    """The probe that states `answers`, one per objective, joined by "; "."""
    ids, owners = tokens.encode_around(form.before, answers, form.after, SEPARATOR)
    return ProbeText(ids, owners)


def attach(
    tokens: ChatTokens,
    context_ids: list[int],
    text: ProbeText,
    objective: int | None,
    keep_leading_newline: bool,
) -> Probe:
    """A probe after a context.

    The probe starts on a new line: a newline is put first unless the context already ends in one;
    `keep_leading_newline` puts it first in any case, as published.
    """
    on_new_line = bool(context_ids) and tokens.pieces.token_bytes(context_ids[-1]).endswith(b"\n")
    lead = tokens.encode_own("\n") if keep_leading_newline or not on_new_line else []
    return Probe(context_ids, lead + text.ids, [0] * len(lead) + text.mask(objective))
