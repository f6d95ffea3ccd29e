"""Outside text stays inert, and a conversation equals one render of the template."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mempo.pieces import TokenPieces
from mempo.prompts import CUT_MARK
from mempo.tokens import ChatTokens
from tests.mempo.support import NO_QWEN, qwen_folder, qwen_tokens, small_tokens

needs_qwen = pytest.mark.skipif(qwen_folder() is None, reason=NO_QWEN)
TOKENIZERS = ["small", pytest.param("qwen2.5", marks=needs_qwen), pytest.param("qwen3", marks=needs_qwen)]
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Co")), max_size=40)


def tokens_named(name: str) -> ChatTokens:
    return small_tokens() if name == "small" else qwen_tokens(name)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_added_token_planted_in_a_page_stays_inert(name: str) -> None:
    tokens = tokens_named(name)
    added = tokens.tokenizer.added_tokens_decoder
    clean = [i for i in tokens.observation("a b", ended=True) if i in added]
    assert len(added) >= 3
    for token in added.values():
        page = f"a {token.content} b{token.content}"
        assert not set(tokens.encode_inert(page)) & set(added)
        ids = tokens.observation(page, ended=True)
        assert [i for i in ids if i in added] == clean
        assert page in tokens.decode(ids)


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=60, deadline=None)
@given(question=TEXTS, said=TEXTS, page=TEXTS)
def test_pieces_of_a_conversation_equal_one_full_render(
    name: str, question: str, said: str, page: str
) -> None:
    tokens = tokens_named(name)
    tokenizer = tokens.tokenizer
    if any(
        token.content in text
        for token in tokenizer.added_tokens_decoder.values()
        for text in (question, said, page)
    ):
        return
    # White space merges with the newline before it in a render, and never where a model writes it token by token.
    said = said.lstrip() or "x"
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
    first = tokens.first_prompt("Be brief.", question) + tokens.generation_prompt_ids
    rendered = tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    assert first == tokenizer.encode(rendered, add_special_tokens=False)
    if name == "qwen3":
        return  # the template adds a <think> block to the last assistant turn: only the first prompt is comparable
    talk += [{"role": "assistant", "content": said}, {"role": "tool", "content": page}]
    rendered = tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    written = [*tokens.encode_inert(said), tokens.turn_end_id]
    pieces = first + written + tokens.observation(page, ended=True) + tokens.generation_prompt_ids
    assert pieces == tokenizer.encode(rendered, add_special_tokens=False)


@needs_qwen
def test_a_template_that_drops_thoughts_is_noticed() -> None:
    assert qwen_tokens("qwen3").drops_thinking
    assert not qwen_tokens("qwen2.5").drops_thinking
    assert not small_tokens().drops_thinking


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_bytes_of_tokens_spell_the_text(name: str, text: str) -> None:
    tokens = tokens_named(name)
    normalizer = tokens.tokenizer.backend_tokenizer.normalizer
    assert tokens.decode(tokens.encode_inert(text)) == (
        normalizer.normalize_str(text) if normalizer else text
    )


def test_ids_beyond_the_tokenizer_spell_nothing() -> None:
    assert small_tokens().pieces.token_bytes(10_000_000) == b""


@pytest.mark.parametrize("name", TOKENIZERS)
def test_long_text_is_cut_by_tokens_at_a_sentence_and_marked(name: str) -> None:
    tokens = tokens_named(name)
    text = "One two three. Four five six. Seven eight nine ten eleven twelve."
    for room in range(len(tokens.encode_inert(CUT_MARK)) + 2, len(tokens.encode_inert(text))):
        shorter, cut = tokens.cut(text, room)
        assert cut
        assert shorter.endswith(CUT_MARK)
        assert len(tokens.encode_inert(shorter)) <= room
        assert text.startswith(shorter.removesuffix(CUT_MARK))
    assert tokens.cut(text, 1000) == (text, False)
    assert tokens.cut("Four five six. " * 9, len(tokens.encode_inert("Four five six. " * 3)))[0].startswith(
        "Four five six."
    )


def test_a_tokenizer_without_exact_spans_is_refused() -> None:
    class Slow:
        name_or_path = "slow"

    with pytest.raises(ValueError, match="not a fast byte-level BPE"):
        TokenPieces(Slow())
