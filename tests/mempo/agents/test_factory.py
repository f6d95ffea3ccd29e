"""What is wrong with an agent's settings is found without a tokenizer where it can be."""

from typing import Any

import pytest

from mempo.agents.factory import AGENTS, build_agent, check_settings
from tests.mempo.support import ScriptedSearch, small_tokens

SIZES = {
    "max_turns": 3,
    "max_response_tokens": 20,
    "max_observation_tokens": 30,
    "max_question_tokens": 10,
    "max_answer_tokens": 5,
    "max_context_tokens": 400,
}


def settings_of(name: str, **changes: Any) -> dict[str, Any]:
    reads = name == "chunk_memory"
    form = {"prompt": "brief", "context": "rewritten" if reads else "history", "force_memory_prefix": False}
    return {"name": name, "verifier": "boxed_em", **form, **SIZES, **changes}


@pytest.mark.parametrize("name", AGENTS)
def test_settings_that_build_an_agent_pass(name: str) -> None:
    check_settings(settings_of(name))
    assert build_agent(settings_of(name), small_tokens(), ScriptedSearch()).verifier == "boxed_em"


def test_an_agent_of_ones_own_is_only_looked_up() -> None:
    check_settings({"name": "tests.verl_patches.scripted:build_scripted", "verifier": "of its own"})
    with pytest.raises(ValueError, match=r"agent.name is 'nowhere.at.all:build', which cannot be imported"):
        check_settings({"name": "nowhere.at.all:build"})


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("nonsense", {}, "agent.name is 'nonsense'; known are self_memory, "),
        ("self_memory", {"prompt": "nonsense"}, "agent.prompt is 'nonsense'"),
        ("react", {"context": "rewritten"}, "agent.context is rewritten"),
        ("rag", {"force_memory_prefix": True}, "agent rag has no memory to open"),
        ("self_memory", {"verifier": "nonsense"}, "agent.verifier is 'nonsense'; known are tagged, "),
        ("full_context", {"verifier": "nonsense"}, "agent.verifier is 'nonsense'"),
        ("chunk_memory", {"verifier": "nonsense"}, "agent.verifier is 'nonsense'"),
        ("chunk_memory", {"verifier": "tests.mempo.rewards:absent"}, "which cannot be imported"),
        ("chunk_memory", {"prompt": "nonsense"}, "agent.prompt is 'nonsense'"),
        ("chunk_memory", {"context": "history"}, "agent.context is 'history'"),
        ("chunk_memory", {"max_answer_tokens": None}, "agent.max_answer_tokens is not set"),
        ("chunk_memory", {"max_turns": 1}, "agent.max_turns is 1"),
        ("chunk_memory", {"max_turns": 0}, "max_turns is 0"),
    ],
)
def test_each_fault_is_named_as_when_the_agent_is_built(
    name: str, changes: dict[str, Any], said: str
) -> None:
    for look in (check_settings, lambda given: build_agent(given, small_tokens(), ScriptedSearch())):
        with pytest.raises(ValueError, match=said):
            look(settings_of(name, **changes))


@pytest.mark.parametrize(
    ("caps", "needed"),
    [
        ({}, 10 + 20 + 30 + 20),  # question, shown memory, chunk, written memory
        ({"max_answer_tokens": 90}, 10 + 20 + 90),  # question, shown memory, answer
    ],
)
def test_caps_that_do_not_fit_the_window_are_found_without_the_prompts_own_words(
    caps: dict[str, int], needed: int
) -> None:
    fits = settings_of("chunk_memory", max_context_tokens=needed, **caps)
    check_settings(fits)
    with pytest.raises(
        ValueError, match=f"{needed - 1}, but the caps allow a request of {needed} tokens and the prompt's"
    ):
        check_settings({**fits, "max_context_tokens": needed - 1})
    with pytest.raises(ValueError, match=f"is {needed}, but the caps allow a request of"):
        build_agent(fits, small_tokens(), None)  # it knows the words too
