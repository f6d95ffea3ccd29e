"""Answer masks cover exactly the gold characters, for any answer and the real Qwen tokenizers."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mempo.pieces import Spelling
from mempo.probe import ANSWER_TAG, BOXED_ANSWER, Probe, ProbeFormat, attach, closed_memory, probe_text
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
    gold = whole.normalize_str(answer.strip()) if whole is not None else answer.strip()
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
@pytest.mark.parametrize("form", [ANSWER_TAG, BOXED_ANSWER], ids=["tag", "box"])
def test_objectives_are_told_apart_and_separators_belong_to_none(name: str, form: ProbeFormat) -> None:
    tokens = tokens_named(name)
    text = probe_text(tokens, form, ["Mira Voss", "Oslo", "x"])
    masks = [text.mask(objective) for objective in range(3)]
    said = [covered(tokens, text.ids, mask).strip() for mask in masks]
    assert said == ["Mira Voss", "Oslo", "x"]
    assert text.mask(None) == [sum(owners) for owners in zip(*masks, strict=True)]


@needs_qwen
def test_a_token_that_straddles_answer_and_separator_belongs_to_the_answer() -> None:
    tokens = qwen_tokens("qwen2.5")
    text = probe_text(tokens, ANSWER_TAG, ["D.C.", "Oslo"])
    assert covered(tokens, text.ids, text.mask(0)) == "D.C.;"
    assert covered(tokens, text.ids, text.mask(1)) == " Oslo"


BLANKS = ["", " ", "\n", "\n\n", "\t", "\u3000", "\xa0", " \r\n "]


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("form", [ANSWER_TAG, BOXED_ANSWER], ids=["tag", "box"])
def test_blanks_at_the_ends_of_gold_are_no_answer(name: str, form: ProbeFormat) -> None:
    tokens = tokens_named(name)
    clean = probe_text(tokens, form, ["Mira Voss", "Oslo"])
    for blank in BLANKS:
        assert probe_text(tokens, form, [f"{blank}Mira Voss{blank}", f"Oslo{blank}"]) == clean
        with pytest.raises(ValueError, match="objective 2: the gold answer is blank"):
            probe_text(tokens, form, ["Mira Voss", blank])


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


# What models write between memory and thought: as it should be, and what the grammar allows besides.
AFTER_MEMORY = [
    "\n<think>\nx", "<think>\nx", " <think>", "\n\n<think>", "\r\n<think>", "\t<think>", "\n", "", ".", "</mem>", "<|im_end|>",
]  # fmt: skip


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("memory", ["Mira Voss", "It was (so)!", ""])
def test_a_probe_goes_on_from_a_closed_memory_whatever_followed_it(name: str, memory: str) -> None:
    tokens = tokens_named(name)
    head = tokens.encode_own("assistant\n")
    text = probe_text(tokens, ANSWER_TAG, ["Oslo"])
    whole = f"<mem>\n{memory}\n</mem>\n"
    written = tokens.encode_own(whole) + tokens.encode_own(f"{ANSWER_TAG.before}Oslo{ANSWER_TAG.after}")
    for after in AFTER_MEMORY:
        ids = tokens.encode_own(whole.rstrip("\n") + after)
        end = tokens.pieces.spell(ids).token_span(0, len(whole.encode()) - 1)[1]
        probe = attach(tokens, closed_memory(tokens, head + ids[:end]), text, None, False)
        assert probe.context_ids + probe.probe_ids == head + written, repr(after)


@needs_qwen
def test_the_token_that_closes_a_memory_may_hold_what_follows() -> None:
    """So the test above is not about tokens that never occur."""
    tokens = qwen_tokens("qwen2.5")
    last = {
        after: tokens.encode_own("x\n</mem>" + after) for after in ("<think>", "\n<think>", "\n\n<think>")
    }
    pieces = [[tokens.decode([token]) for token in ids] for ids in last.values()]
    assert ["><" in each for each in pieces] == [True, False, False]
    assert [">\n" in each for each in pieces] == [False, True, False]
    assert [">\n\n" in each for each in pieces] == [False, False, True]


def test_a_memory_without_tags_stays_as_it_is() -> None:
    tokens = small_tokens()
    for said in ("notes", "", "> <", "</me>"):
        ids = tokens.encode_own(said)
        assert closed_memory(tokens, ids) == ids


def test_a_probe_without_answer_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="no token belongs to the answer"):
        Probe([1], [2, 3], [0, 0])
