"""Which probes a trajectory asks for, and what their log-probs make of each turn."""

import asyncio
import math

import pytest
import torch

from mempo.likelihood import RULES, pair_probability
from mempo.memory_scores import STATUSES, MemorySettings, plan_probes
from mempo.probe import ANSWER_TAG, Probe, closed_memory
from mempo.task import Reference
from mempo.tokens import ChatTokens
from mempo.trajectory import Trajectory
from tests.mempo.support import (
    ANSWER_TURN,
    NO_QWEN,
    SEARCH_TURN,
    SECOND_TURN,
    TASK,
    ScriptedModel,
    make_agent,
    qwen_folder,
    qwen_tokens,
    small_tokens,
)

GOLD = Reference([["Mira Voss", "Voss"]])
TOKENS = small_tokens()
FULL_TURNS = [SEARCH_TURN, SECOND_TURN, ANSWER_TURN]


needs_qwen = pytest.mark.skipif(qwen_folder() is None, reason=NO_QWEN)


def play(turns: list[str], context: str = "history", tokens: ChatTokens = TOKENS) -> Trajectory:
    return asyncio.run(make_agent(tokens, context=context).run(TASK, ScriptedModel(tokens, turns)))


def answer_ids(probe: Probe) -> list[int]:
    return [token for token, mask in zip(probe.probe_ids, probe.answer_mask, strict=True) if mask]


def constant(probe: Probe, logprob: float) -> torch.Tensor:
    return torch.full((sum(probe.answer_mask),), logprob)


@pytest.mark.parametrize("context", ["history", "window:1"])
def test_history_reference_probes_memory_and_whole_history_from_the_second_turn(context: str) -> None:
    trajectory = play(FULL_TURNS, context)
    plan = plan_probes(trajectory, GOLD, TOKENS, ANSWER_TAG, MemorySettings())
    assert plan.statuses == {0: "first", 1: "scored", 2: "scored"}
    assert [probe.context_ids for probe in plan.probes] == [
        closed_memory(TOKENS, trajectory.memory_context(1) or []),
        trajectory.full_context(1),
        closed_memory(TOKENS, trajectory.memory_context(2) or []),
        trajectory.full_context(2),
    ]
    scores = plan.scores(
        [constant(probe, lp) for probe, lp in zip(plan.probes, [-0.1, -0.5, -0.4, -0.2], strict=True)]
    )
    assert [score.status for score in scores] == ["first", "scored", "scored"]
    assert scores[1].reward == pytest.approx(math.exp(-0.1) - math.exp(-0.5), abs=1e-6)
    assert scores[2].reward == pytest.approx(math.exp(-0.4) - math.exp(-0.2), abs=1e-6)
    assert scores[1].kept == sum(plan.probes[0].answer_mask)


def test_previous_memory_reference_scores_every_turn_from_an_empty_one() -> None:
    trajectory = play(FULL_TURNS)
    plan = plan_probes(trajectory, GOLD, TOKENS, ANSWER_TAG, MemorySettings(reference="previous_memory"))
    assert plan.statuses == {0: "scored", 1: "scored", 2: "scored"}
    empty = plan.probes[1].context_ids
    assert TOKENS.decode(empty).endswith("<mem>\n</mem>\n")
    assert plan.probes[3].context_ids == closed_memory(TOKENS, trajectory.memory_context(0) or [])
    assert plan.probes[5].context_ids == closed_memory(TOKENS, trajectory.memory_context(1) or [])


def test_each_memory_that_cannot_be_scored_has_its_status() -> None:
    missing = SECOND_TURN[SECOND_TURN.index("<think>") :]
    trajectory = play([SEARCH_TURN, missing, ANSWER_TURN])
    plan = plan_probes(trajectory, GOLD, TOKENS, ANSWER_TAG, MemorySettings())
    assert plan.statuses == {0: "first", 1: "missing", 2: "scored"}
    unclosed = play([SEARCH_TURN, "<mem>\nand so on"])
    assert plan_probes(unclosed, GOLD, TOKENS, ANSWER_TAG, MemorySettings()).statuses == {
        0: "first",
        1: "unclosed",
    }
    tight = MemorySettings(max_positions=len(trajectory.full_context(2)))
    plan = plan_probes(trajectory, GOLD, TOKENS, ANSWER_TAG, tight)
    assert plan.statuses[2] == "too_long"
    assert plan.probes == []
    assert {*plan.statuses.values()} <= {*STATUSES}


@pytest.mark.parametrize("aliases", ["first", "best"])
def test_a_separator_that_everybody_predicts_is_no_signal(aliases: str) -> None:
    gold, trajectory = Reference([["Mira Voss"], ["Oslo"]]), play([SEARCH_TURN, ANSWER_TURN])
    plan = plan_probes(trajectory, gold, TOKENS, ANSWER_TAG, MemorySettings(aliases=aliases))
    unknown = [
        torch.tensor([0.0 if TOKENS.decode([token]).strip() == ";" else -9.0 for token in answer_ids(probe)])
        for probe in plan.probes
    ]
    assert [score.status for score in plan.scores(unknown)] == ["first", "no_signal"]


@pytest.mark.parametrize("aliases", ["first", "best"])
def test_both_ways_to_choose_an_alias_mask_the_same_tokens(aliases: str) -> None:
    gold, trajectory = Reference([["Mira Voss"], ["Oslo"]]), play([SEARCH_TURN, ANSWER_TURN])
    plan = plan_probes(trajectory, gold, TOKENS, ANSWER_TAG, MemorySettings(aliases=aliases))
    asked = [token for probe in plan.probes[::2] for token in answer_ids(probe)]
    assert TOKENS.decode(asked).replace(" ", "") == "MiraVossOslo"


def test_aliases_that_differ_in_blanks_are_one() -> None:
    gold = Reference([["Oslo", " Oslo", "Oslo\n"]])
    plan = plan_probes(
        play([SEARCH_TURN, ANSWER_TURN]), gold, TOKENS, ANSWER_TAG, MemorySettings(aliases="best")
    )
    assert len(plan.probes) == 2


def test_no_kept_token_leaves_the_pool_as_no_signal() -> None:
    plan = plan_probes(play(FULL_TURNS), GOLD, TOKENS, ANSWER_TAG, MemorySettings())
    scores = plan.scores([constant(probe, -3.0) for probe in plan.probes])
    assert [score.status for score in scores] == ["first", "no_signal", "no_signal"]


def test_best_alias_is_the_same_on_both_sides() -> None:
    plan = plan_probes(
        play([SEARCH_TURN, ANSWER_TURN]), GOLD, TOKENS, ANSWER_TAG, MemorySettings(aliases="best")
    )
    assert len(plan.probes) == 4
    # The second alias has the larger max(P_memory, P_reference), although the first has the larger P_memory.
    values = [-0.5, -0.6, -0.65, -0.1]
    (_, score) = plan.scores([constant(probe, lp) for probe, lp in zip(plan.probes, values, strict=True)])
    assert score.p_memory == pytest.approx(math.exp(-0.65))
    assert score.p_reference == pytest.approx(math.exp(-0.1))


# Per token, memory and reference: an alias that the memory alone predicts whole, one with an easy piece among four that
# nobody predicts, and one that nobody believes in at all.
WHOLE = ([0.9, 0.9], [0.3, 0.3])
EASY_PIECE = ([1e-5, 1e-5, 1e-5, 1e-5, 0.999], [1e-5, 1e-5, 1e-5, 1e-5, 0.999])
NOBODY = ([0.01, 0.01], [0.01, 0.01])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("other", [EASY_PIECE, NOBODY], ids=["easy piece", "nobody"])
@pytest.mark.parametrize("whole_first", [True, False])
def test_the_best_alias_is_chosen_without_a_threshold(
    rule: str, other: tuple[list[float], list[float]], whole_first: bool
) -> None:
    gold, trajectory = Reference([["a", "b"]]), play([SEARCH_TURN, ANSWER_TURN])
    plan = plan_probes(trajectory, gold, TOKENS, ANSWER_TAG, MemorySettings(rule, aliases="best"))
    sides = [*WHOLE, *other] if whole_first else [*other, *WHOLE]
    (_, score) = plan.scores([torch.tensor(side).log() for side in sides])
    alone = pair_probability(*(torch.tensor(side).log() for side in WHOLE), rule)
    if alone is None:  # `both`: no token passes on both sides
        assert (rule, score.status) == ("both", "no_signal")
        return
    assert (score.p_memory, score.p_reference) == pytest.approx((alone.p_memory, alone.p_reference))
    if rule == "either":
        assert score.reward == pytest.approx(0.6)


def test_best_alias_per_objective_joins_the_winners() -> None:
    gold = Reference([["Mira Voss", "Voss"], ["Oslo"]])
    plan = plan_probes(
        play([SEARCH_TURN, ANSWER_TURN]), gold, TOKENS, ANSWER_TAG, MemorySettings(aliases="best")
    )
    assert len(plan.probes) == 6
    values = [-9.0, -9.0, -0.2, -0.3, -0.1, -0.6]
    (_, score) = plan.scores([constant(probe, lp) for probe, lp in zip(plan.probes, values, strict=True)])
    second, third = sum(plan.probes[2].answer_mask), sum(plan.probes[4].answer_mask)
    mean = (-0.2 * second - 0.1 * third) / (second + third)
    assert score.kept == second + third
    assert score.p_memory == pytest.approx(math.exp(mean))


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_a_broken_logprob_names_trajectory_and_turn(bad: float) -> None:
    plan = plan_probes(play(FULL_TURNS), GOLD, TOKENS, ANSWER_TAG, MemorySettings(), name="u_3")
    values = [constant(probe, -0.1) for probe in plan.probes]
    values[2][0] = bad
    with pytest.raises(ValueError, match=r"trajectory u_3, turn 3.*given the memory"):
        plan.scores(values)


@pytest.mark.parametrize("name", ["small", pytest.param("qwen2.5", marks=needs_qwen)])
@pytest.mark.parametrize("after", ["\n", "", " ", "\n\n"])
def test_published_keeps_the_newline_after_the_history_and_never_doubles_it_after_a_memory(
    name: str, after: str
) -> None:
    tokens = TOKENS if name == "small" else qwen_tokens(name)
    turns = [turn.replace("</mem>\n", f"</mem>{after}") for turn in (SEARCH_TURN, ANSWER_TURN)]
    trajectory = play(turns, tokens=tokens)
    memory, history, again, previous = (
        tokens.decode(probe.context_ids + probe.probe_ids)
        for reference in ("history", "previous_memory")
        for probe in plan_probes(
            trajectory,
            GOLD,
            tokens,
            ANSWER_TAG,
            MemorySettings(keep_leading_newline=True, reference=reference),
        ).probes[-2:]
    )
    assert memory == again
    assert memory.endswith(f"Directed by Mira Voss.\n</mem>\n{ANSWER_TAG.before}Mira Voss{ANSWER_TAG.after}")
    assert previous.endswith(f"Nothing yet.\n</mem>\n{ANSWER_TAG.before}Mira Voss{ANSWER_TAG.after}")
    assert history.endswith(f"assistant\n\n{ANSWER_TAG.before}Mira Voss{ANSWER_TAG.after}")


@needs_qwen
@pytest.mark.parametrize("reference", ["history", "previous_memory"])
def test_what_follows_a_memory_does_not_change_its_probes(reference: str) -> None:
    tokens, settings = qwen_tokens("qwen2.5"), MemorySettings(reference=reference)
    plans = []
    for after in ("\n", "", "\n\n"):
        turns = [turn.replace("</mem>\n", f"</mem>{after}") for turn in (SEARCH_TURN, ANSWER_TURN)]
        plans.append(plan_probes(play(turns, tokens=tokens), GOLD, tokens, ANSWER_TAG, settings))
    # The history shows what was written, whatever it is.
    sides = 2 if reference == "history" else 1
    clean, *others = ([(p.context_ids, p.probe_ids) for p in plan.probes[::sides]] for plan in plans)
    assert others == [clean, clean]


def test_unknown_settings_are_named() -> None:
    with pytest.raises(ValueError, match=r"memory.aliases"):
        MemorySettings(aliases="all")
    with pytest.raises(ValueError, match=r"memory.threshold_p"):
        MemorySettings(threshold_p=1.0)
