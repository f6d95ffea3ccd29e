"""Verifiers by name: what each calls right, and that an answer of nothing never is."""

import asyncio
from pathlib import Path

import pytest

from mempo.agents.base import RolloutError
from mempo.agents.factory import build_agent
from mempo.boxed import boxed_answer
from mempo.reward import outcome_reward
from mempo.task import Reference, Task
from mempo.trajectory import Trajectory
from mempo.verifiers import VERIFIERS, check_verifier, pool_deadline, pooled, verify
from tests.mempo.agents.test_chunk_memory import make
from tests.mempo.support import ScriptedModel, ScriptedSearch, small_tokens


def said(text: str, objectives: int = 1) -> Trajectory:
    tokens = small_tokens()
    task = Task("q1", "Who?", objectives, document="A page.")
    agent = make(tokens, max_answer_tokens=80)
    return asyncio.run(agent.run(task, ScriptedModel(tokens, ["m", text])))


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("It is \\boxed{Oslo}.", "Oslo"),
        ("\\boxed{a} or rather \\boxed{ b }", "b"),
        ("\\boxed{f_{1}(x)}", "f_{1}(x)"),
        ("\\boxed {Oslo}", "Oslo"),
        ("\\boxed{}", ""),
        ("\\boxed{Oslo", None),
        ("\\boxed{Rome} and \\boxed{Oslo", "Rome"),
        ("Oslo", None),
        ("", None),
    ],
)
def test_the_last_closed_box_counts(text: str, box: str | None) -> None:
    assert boxed_answer(text) == box


@pytest.mark.parametrize(
    ("text", "exact", "em", "lenient"),
    [
        ("\\boxed{Mira Voss}", 1, 1, 1),
        ("\\boxed{the mira voss.}", 0, 1, 1),
        ("\\boxed{director Mira Voss}", 0, 0, 1),
        ("Mira Voss", 0, 0, 1),
        ("It was Mira Voss. \\boxed{Ann}", 0, 0, 0),
        ("\\boxed{}", 0, 0, 0),
        ("\\boxed{the}", 0, 0, 0),
        ("", 0, 0, 0),
        ("Mira", 0, 0, 0),
    ],
)
def test_the_three_verifiers_of_boxed_answers(text: str, exact: int, em: int, lenient: int) -> None:
    trajectory, gold = said(text), Reference([["Mira Voss"]])
    rewards = [
        outcome_reward(trajectory, gold, verifier=name).reward
        for name in ("boxed_exact", "boxed_em", "lenient")
    ]
    assert rewards == [exact, em, lenient]


def test_several_objectives_in_one_box() -> None:
    trajectory = said("\\boxed{Mira Voss; oslo}", objectives=2)
    gold = Reference([["Mira Voss"], ["Oslo"]])
    assert outcome_reward(trajectory, gold, verifier="boxed_exact").reward == 1.0
    assert outcome_reward(trajectory, gold, verifier="boxed_em").reward == 2.0
    assert outcome_reward(trajectory, gold, verifier="boxed_em", objectives="mean").success


def test_a_missing_box_is_named() -> None:
    outcome = outcome_reward(said("Mira Voss"), Reference([["Mira Voss"]]), verifier="boxed_em")
    assert outcome.format_reason == "box_missing"
    assert not outcome.success


def test_an_unknown_verifier_lists_those_there_are() -> None:
    with pytest.raises(ValueError, match="tagged, boxed_exact, boxed_em, lenient"):
        verify("strict", said("x"), Reference([["x"]]))
    assert list(VERIFIERS) == ["tagged", "boxed_exact", "boxed_em", "lenient"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("strict", "known are tagged, .*, or write module:function"),
        ("tests.mempo.rewards:", "or write module:function"),
        (":told", "or write module:function"),
        ("nowhere.at.all:told", "cannot be imported: No module named 'nowhere'.*PYTHONPATH"),
        ("tests.mempo.rewards:absent", "cannot be imported: AttributeError: .*'absent'"),
        ("tests.mempo.rewards:NOT_A_FUNCTION", "is no function but of type int"),
        (".rewards:told", "cannot be imported: TypeError"),
    ],
)
def test_a_reward_that_is_not_there_is_named_before_anything_runs(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^agent.verifier is {name!r}.*{said}"):
        make(small_tokens(), verifier=name)


def test_a_module_that_breaks_while_it_is_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_reward.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="'broken_reward:score', .*ZeroDivisionError"):
        check_verifier("broken_reward:score")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("half_a_verdict", "`right` = list '\\[\\]'"),
        ("a_number", "float '1.0'"),
        ("a_nan", "float 'nan' as entry 1 of `right`"),
        ("points", "float '2.5' as entry 1"),
        ("a_one", "int '1' as entry 1"),
        ("a_text", "str 'True' as entry 1"),
        ("a_none", "NoneType 'None' as entry 1"),
        ("no_list", "`right` = bool 'True'"),
        ("a_word", "`right` = str 'T'"),
        ("nested", "list '\\[True\\]' as entry 1"),
        ("two_too_many", "`right` = list"),
        ("a_reason_of_its_own", "`format_reason` = str 'too long'"),
    ],
)
def test_what_is_no_verdict_costs_its_rollout_and_names_verifier_and_task(name: str, shown: str) -> None:
    with pytest.raises(
        RolloutError, match=f"'tests.mempo.rewards:{name}' returned {shown}.* for task 'q1'.*objective"
    ) as caught:
        outcome_reward(said("x"), Reference([["x"]]), verifier=f"tests.mempo.rewards:{name}")
    assert caught.value.cause == "bad_verdict"


@pytest.mark.parametrize("name", ["numpy_bools", "one_numpy_bool"])
def test_numpys_bools_are_a_verdict_and_come_out_as_pythons(name: str) -> None:
    outcome = outcome_reward(said("x"), Reference([["x"]]), verifier=f"tests.mempo.rewards:{name}")
    assert outcome.reward == 1.0
    assert outcome.right == [True]
    assert type(outcome.right[0]) is bool


def test_a_verifier_asks_for_the_pool_with_the_time_it_may_take() -> None:
    assert pool_deadline("tests.mempo.rewards:told") == 60
    assert [pool_deadline(name) for name in VERIFIERS] == [None] * len(VERIFIERS)
    with pytest.raises(ValueError, match="deadline_s is 0"):
        pooled(deadline_s=0)


@pytest.mark.parametrize("name", ["self_memory", "react", "rag"])
def test_agents_that_search_take_a_reward_of_ones_own(name: str) -> None:
    settings = {
        "name": name,
        "prompt": "brief",
        "context": "history",
        "max_turns": 2,
        "max_response_tokens": 9,
    }
    settings |= {"max_observation_tokens": 9, "max_context_tokens": 999, "force_memory_prefix": False}
    tokens, own = small_tokens(), "tests.mempo.rewards:told"
    assert build_agent(settings, tokens, ScriptedSearch()).verifier == "tagged"
    assert build_agent({**settings, "verifier": own}, tokens, ScriptedSearch()).verifier == own
    with pytest.raises(ValueError, match="agent.verifier is 'kind'"):
        build_agent({**settings, "verifier": "kind"}, tokens, ScriptedSearch())
