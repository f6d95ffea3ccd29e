"""What is known of agents by name agrees with the agents that are built."""

from typing import Any

import pytest

from mempo.agents.base import ToolReply
from mempo.agents.factory import AGENTS, build_agent
from mempo.agents.known import KNOWN, known_agent
from mempo.probe import BOXED_ANSWER
from tests.mempo.support import small_tokens


async def search(query: str) -> ToolReply:
    raise AssertionError("no agent runs here")


def test_every_agent_is_known() -> None:
    assert KNOWN.keys() == AGENTS.keys()


@pytest.mark.parametrize("name", AGENTS)
def test_what_is_known_is_what_is_built(name: str) -> None:
    known = known_agent(name)
    settings: dict[str, Any] = {"name": name, "prompt": "brief", "context": known.context, "max_turns": 4}
    settings |= dict.fromkeys(("max_response_tokens", "max_observation_tokens"), 40)
    settings |= dict.fromkeys(("max_question_tokens", "max_answer_tokens"), 40)
    settings |= {"max_context_tokens": 600, "force_memory_prefix": False, "verifier": "lenient"}
    agent = build_agent(settings, small_tokens(), search)
    assert (agent.probe_format == BOXED_ANSWER) == known.boxed
    assert all(texts for texts in known.texts("brief").values())


def test_the_words_are_those_of_the_agent() -> None:
    assert known_agent("react").texts("evaluation") != known_agent("self_memory").texts("evaluation")
    assert known_agent("chunk_memory").texts("brief").keys() == {
        "prompt.reading",
        "prompt.answering",
        "prompt.no_memory",
    }
    assert known_agent("full_context").texts("") != known_agent("closed_book").texts("")


def test_an_agent_of_your_own_shows_the_window_and_may_have_words_of_its_own() -> None:
    own = known_agent("my_agent:build")
    assert (own.context, own.boxed) == ("window:1", None)
    with pytest.raises(ValueError, match="mine"):
        own.texts("mine")
