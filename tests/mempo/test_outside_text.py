"""Lone surrogates never pass the border."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mempo.outside_text import load_json, well_formed
from tests.mempo.support import small_tokens

ANY_TEXT = st.text(st.characters(), max_size=20)  # surrogates too


@given(ANY_TEXT)
def test_well_formed_text_can_be_encoded_and_whole_text_stays(text: str) -> None:
    found = well_formed(text)
    found.encode()
    assert len(found) == len(text)
    assert all(
        a == b or (b == "\ufffd" and "\ud800" <= a <= "\udfff") for a, b in zip(text, found, strict=True)
    )


@given(
    st.dictionaries(ANY_TEXT, st.one_of(ANY_TEXT, st.lists(ANY_TEXT, max_size=3), st.integers(), st.none()))
)
def test_json_is_read_as_the_standard_library_does_but_for_surrogates(value: dict[str, object]) -> None:
    for written in (
        json.dumps(value),
        json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"),
    ):
        json.dumps(load_json(written), ensure_ascii=False).encode()
        plain = json.loads(written)
        if well_formed(json.dumps(plain, ensure_ascii=False)) == json.dumps(plain, ensure_ascii=False):
            assert load_json(written) == plain


@pytest.mark.parametrize("torn", ["{", b"[", b"\xff", b""])
def test_what_is_no_json_stays_an_error(torn: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        load_json(torn)


def test_pairs_of_escapes_stay_one_character() -> None:
    assert load_json(r'["\ud83d\ude00", "\ud83d", "\uDE00x", "\\ud800"]') == [
        "\U0001f600",
        "\ufffd",
        "\ufffdx",
        "\\ud800",
    ]


def test_a_tool_of_ones_own_may_reply_with_one() -> None:
    assert small_tokens().cut("a\ud800b", 20) == ("a\ufffdb", False)
