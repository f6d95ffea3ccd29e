"""The turn grammar: every failure has its name."""

import pytest

from mempo.prompts import format_turn
from mempo.tags import FormatReason, parse_turn
from mempo.trajectory import MemoryStatus

M, T, S, A = "<mem>m</mem>", "<think>t</think>", "<search>s</search>", "<answer>a</answer>"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (M + T + S, None),
        (M + T + A, None),
        ("\n" + M + "\n\n" + T + "\n" + A + "\n", None),
        ("<mem></mem>" + T + S, None),
        (T + S, FormatReason.MEMORY_MISSING),
        ("<mem>m", FormatReason.MEMORY_UNCLOSED),
        ("hi " + M + T + S, FormatReason.MEMORY_NOT_FIRST),
        (M + M + T + S, FormatReason.MEMORY_REPEATED),
        (M + S, FormatReason.THOUGHT_MISSING),
        (M + "<think>t" + S, FormatReason.THOUGHT_UNCLOSED),
        (M + T + T + S, FormatReason.THOUGHT_REPEATED),
        (M + S + T, FormatReason.OUT_OF_ORDER),
        (T + M + S, FormatReason.MEMORY_NOT_FIRST),
        (M + T, FormatReason.ACTION_MISSING),
        (M + T + S + S, FormatReason.ACTION_REPEATED),
        (M + T + S + A, FormatReason.ACTION_REPEATED),
        (M + T + "<search>s", FormatReason.SEARCH_UNCLOSED),
        (M + T + "<answer>a", FormatReason.ANSWER_UNCLOSED),
        (M + T + A + " and more", FormatReason.TEXT_AFTER_ACTION),
    ],
)
def test_problem_of_a_turn(text: str, reason: FormatReason | None) -> None:
    assert parse_turn(text).problem is reason


def test_what_format_turn_writes_is_what_parse_turn_reads() -> None:
    parsed = parse_turn(format_turn("known", "so", search="query"))
    assert (parsed.memory, parsed.thought, parsed.action.kind, parsed.action.text) == (
        "known",
        "so",
        "search",
        "query",
    )
    assert parsed.problem is None


def test_memory_span_runs_from_the_first_to_the_last_bracket() -> None:
    text = "\n" + M + T + S
    span = parse_turn(text).memory_chars
    assert span is not None
    assert text[span[0] : span[1]] == M


def test_an_unclosed_memory_swallows_the_turn_and_acts_on_nothing() -> None:
    parsed = parse_turn("<mem>m" + T + A)
    assert parsed.memory_status is MemoryStatus.UNCLOSED
    assert parsed.memory_chars is None
    assert parsed.action.kind == "none"


def test_an_answer_inside_memory_or_thought_is_not_the_answer() -> None:
    parsed = parse_turn("<mem><answer>no</answer></mem><think><answer>no</answer></think><search>q</search>")
    assert (parsed.action.kind, parsed.action.text) == ("search", "q")


def test_blank_query_and_answer_are_read_as_blank() -> None:
    assert parse_turn(M + T + "<search> \n</search>").action.text == ""
    assert parse_turn(M + T + "<answer></answer>").action.kind == "answer"


def test_halves_of_characters_at_the_border_survive() -> None:
    text = (M + T + "<answer>voilà</answer>").encode().decode("latin-1")
    assert parse_turn(text).action.text.encode("latin-1").decode() == "voilà"
