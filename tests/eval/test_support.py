"""Gold paragraphs that were searched and remembered."""

from __future__ import annotations

import asyncio

import pytest

from eval.support import SupportRecall, passage_titles
from mempo.prompts import format_passages, format_turn
from mempo.task import Limits
from mempo.trajectory import Trajectory
from tests.mempo.support import TASK, ScriptedModel, ScriptedSearch, make_agent, small_tokens

LIMITS = Limits(max_turns=4, max_response_tokens=400, max_observation_tokens=400, max_context_tokens=4000)


def run(memory: str, passages: str, *, closed: bool = True) -> Trajectory:
    tokens = small_tokens()
    search = format_turn("Nothing yet.", "Look.", search="harbor")
    answer = format_turn(memory, "Known.", answer="Mira Voss")
    if not closed:
        answer = answer.replace("</mem>", "")
    agent = make_agent(tokens, search=ScriptedSearch(passages), limits=LIMITS)
    return asyncio.run(agent.run(TASK, ScriptedModel(tokens, [search, answer])))


def test_titles_are_read_as_the_agents_write_them() -> None:
    pages = [("Silent Harbor (film)", "A film.\nIt is long."), ("東京", "(7) no title"), ("(3)", "x")]
    assert passage_titles(format_passages(pages)) == ["Silent Harbor (film)", "東京", "(3)"]
    assert passage_titles("the search failed") == []
    listed = format_passages([("A list", "(1) first\n(3) third"), ("Rain", "Water.")])
    assert passage_titles(listed) == ["A list", "Rain"]


@pytest.mark.parametrize(
    ("memory", "search_recall", "memory_recall"),
    [
        ("Silent Harbor is by Mira Voss.", 0.5, 1.0),
        ("The film is silent harbor!", 0.5, 0.5),
        ("The harbor is silent; ask for Mira.", 0.5, 0.0),
        ("", 0.5, 0.0),
    ],
)
def test_recall_counts_titles_seen_and_titles_named(
    memory: str, search_recall: float, memory_recall: float
) -> None:
    passages = format_passages([("Silent harbor (film)", "By Mira Voss."), ("Rain", "Water.")])
    found = SupportRecall.of(run(memory, passages), ["Silent Harbor (film)", "Mira Voss"])
    assert found == SupportRecall(search_recall, memory_recall)


def test_a_title_inside_a_passage_was_not_searched() -> None:
    passages = format_passages([("Rain", "Silent Harbor\nMira Voss")])
    assert SupportRecall.of(run("", passages), ["Silent Harbor", "Mira Voss"]) == SupportRecall(0.0, 0.0)


def test_an_unclosed_memory_keeps_nothing() -> None:
    found = SupportRecall.of(run("Mira Voss", "(1) Rain\nWater.", closed=False), ["Mira Voss"])
    assert found == SupportRecall(0.0, 0.0)


def test_without_gold_paragraphs_there_is_no_recall() -> None:
    assert SupportRecall.of(run("Mira Voss", "(1) Rain\nWater."), []) is None
