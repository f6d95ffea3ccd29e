"""The largest text within a limit: found for every curve, with few measurements."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.data.records import DataError
from tools.data.text_size import TextSize, largest


@given(
    steps=st.lists(st.integers(1, 50), min_size=1, max_size=60),
    least=st.integers(1, 20),
    limit=st.integers(0, 2000),
)
def test_the_number_found_fits_and_the_next_does_not(steps: list[int], least: int, limit: int) -> None:
    sizes = list(accumulate(steps))

    def size(parts: int) -> int:  # any growing curve, going on without end
        return sizes[parts] if parts < len(sizes) else sizes[-1] + parts - len(sizes) + 1

    by_hand = [parts for parts in range(least, limit + 100) if size(parts) <= limit]
    assert largest(size, limit, least) == (by_hand[-1] if by_hand else None)


def test_a_long_text_is_found_with_few_measurements() -> None:
    measured = []

    def size(parts: int) -> int:
        measured.append(parts)
        return 700 + 23 * parts

    assert largest(size, 10_000_000, 5) == (10_000_000 - 700) // 23
    assert len(measured) < 25
    assert sum(measured) < 8 * max(measured)


def test_a_limit_is_in_characters_or_in_tokens() -> None:
    size = TextSize(characters=100)
    assert (size.unit, size.limit, size.measure("abc")) == ("characters", 100, 3)
    for wrong in ({}, {"characters": 5, "tokens": 5, "tokenizer": "x"}):
        with pytest.raises(DataError, match="exactly one of --characters and --tokens"):
            TextSize(**wrong)  # type: ignore[arg-type]
    for wrong in ({"tokens": 5}, {"characters": 5, "tokenizer": "x"}):
        with pytest.raises(DataError, match="--tokens and --tokenizer belong together"):
            TextSize(**wrong)  # type: ignore[arg-type]
