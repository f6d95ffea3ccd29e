"""Answer masks cover exactly the gold characters, for any answer and the real Qwen tokenizers."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mempo.pieces import Spelling
from mempo.probe import ANSWER_TAG, Probe, attach, probe_text
from mempo.tokens import ChatTokens
from tests.mempo.support import NO_QWEN, qwen_folder, qwen_tokens, small_tokens

needs_qwen = pytest.mark.skipif(qwen_folder() is None, reason=NO_QWEN)
TOKENIZERS = [
    "small",
    pytest.param("qwen2.5", marks=needs_qwen),
    pytest.param("qwen3", marks=needs_qwen),
]
ANSWERS = st.text(st.characters(exclude_categories=("Cs", "Co")), min_size=1, max_size=24).filter(str.strip)


def tokens_named(name: str) -> ChatTokens:
    return small_tokens() if name == "small" else qwen_tokens(name)


def covered(tokens: ChatTokens, ids: list[int], mask: list[int]) -> str:
    return Spelling.readable(tokens.pieces.spell([i for i, kept in zip(ids, mask, strict=True) if kept]).text)


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=200, deadline=None)
@given(answer=ANSWERS)
@example("Washington, D.C.")
@example('He said "no"')
@example("(so)")
@example("x")
@example("東京都")
@example("!")
@example("<answer>")
@example("<|im_end|>")
@example("naïve\u0301")
@example("good ")
@example("👩‍👩‍👧")
def test_the_mask_covers_exactly_the_gold_characters(name: str, answer: str) -> None:
    tokens = tokens_named(name)
    text = probe_text(tokens, ANSWER_TAG, [answer])
    mask = text.mask(None)
    whole = tokens.tokenizer.backend_tokenizer.normalizer
    gold = whole.normalize_str(answer) if whole is not None else answer
    said, first = covered(tokens, text.ids, mask), mask.index(1)
    last = len(mask) - 1 - mask[::-1].index(1)
    assert all(mask[first : last + 1])
    before, after = tokens.decode(text.ids[:first]), tokens.decode(text.ids[last + 1 :])
    # What is left out is frame alone; a token on the border may bring some of the frame with it.
    assert before + said + after == ANSWER_TAG.before + gold + ANSWER_TAG.after
    assert len(before) <= len(ANSWER_TAG.before)
    assert len(after) <= len(ANSWER_TAG.after)
    edge = tokens.decode(text.ids[first : first + 1]), tokens.decode(text.ids[last : last + 1])
    assert len(before) + len(edge[0]) > len(ANSWER_TAG.before) or "\ufffd" in edge[0]
    assert len(after) + len(edge[1]) > len(ANSWER_TAG.after) or "\ufffd" in edge[1]


@needs_qwen
@pytest.mark.parametrize(
    ("answer", "merges"), [("Paris", False), ("D.C.", True), ("(so)", True), ("no!", True)]
)
def test_the_closing_tag_is_not_a_fixed_number_of_tokens(answer: str, merges: bool) -> None:
    tokens = qwen_tokens("qwen2.5")
    text = probe_text(tokens, ANSWER_TAG, [answer])
    last = max(index for index, kept in enumerate(text.mask(None)) if kept)
    assert tokens.pieces.token_bytes(text.ids[last]).endswith(b"\n") == merges
    assert len(text.ids) - 1 - last == (3 if merges else 4)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_objectives_are_told_apart_and_separators_belong_to_the_whole(name: str) -> None:
    tokens = tokens_named(name)
    text = probe_text(tokens, ANSWER_TAG, ["Mira Voss", "Oslo", "x"])
    assert covered(tokens, text.ids, text.mask(0)).strip("; ") == "Mira Voss"
    assert covered(tokens, text.ids, text.mask(1)).strip("; ") == "Oslo"
    assert covered(tokens, text.ids, text.mask(None)).strip() == "Mira Voss; Oslo; x"


@pytest.mark.parametrize("name", TOKENIZERS)
def test_both_sides_get_the_same_ids_from_the_thought_on(name: str) -> None:
    tokens = tokens_named(name)
    text = probe_text(tokens, ANSWER_TAG, ["Oslo"])
    on_line = attach(tokens, tokens.encode_own("assistant\n"), text, None, False)
    after_tag = attach(tokens, tokens.encode_own("<mem>\nx\n</mem>"), text, None, False)
    newline = tokens.encode_own("\n")
    assert on_line.probe_ids == text.ids
    assert after_tag.probe_ids == newline + text.ids
    assert attach(tokens, tokens.encode_own("assistant\n"), text, None, True).probe_ids == newline + text.ids
    assert len(after_tag.answer_mask) == len(after_tag.probe_ids)


def test_a_probe_without_answer_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="no token belongs to the answer"):
        Probe([1], [2, 3], [0, 0])
