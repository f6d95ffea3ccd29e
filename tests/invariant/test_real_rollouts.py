"""Properties that hold on rollouts of a real RL-trained search agent (R1-Searcher, 500 HotpotQA questions)."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from mempo.agents.base import ToolReply
from mempo.answers import score_answer
from mempo.prompts import format_turn
from mempo.task import Limits, Task
from mempo.trajectory import Trajectory
from tests.mempo.support import NO_QWEN, ScriptedModel, make_agent, qwen_folder, qwen_tokens

ROLLOUTS = Path(__file__).parents[2].parent / "shared" / "data" / "r1_searcher" / "hotpotqa_qwen.jsonl"
LIMITS = Limits(
    max_turns=16, max_response_tokens=4000, max_observation_tokens=600, max_context_tokens=100_000
)

pytestmark = pytest.mark.skipif(not ROLLOUTS.exists(), reason="the real rollouts in shared/data are not here")


def rollouts() -> list[dict[str, str]]:
    return [json.loads(line) for line in ROLLOUTS.read_text().splitlines()]


def turns_of(rollout: dict[str, str]) -> tuple[list[str], list[str]]:
    """The rollout's thoughts, queries and pages in our grammar: (assistant turns, pages)."""
    turns, pages = [], []
    text = rollout["gen_text_store"]
    pattern = r"(.*?)<\|begin_of_query\|>(.*?)<\|end_of_query\|>.*?<\|begin_of_documents\|>(.*?)<\|end_of_documents\|>"
    end = 0
    for found in re.finditer(pattern, text, re.DOTALL):
        thought, query, page = found.groups()
        turns.append(format_turn(thought[-200:], thought, search=query))
        pages.append(page)
        end = found.end()
    turns.append(format_turn(text[end:][:200], text[end:], answer=rollout["pred_ans"]))
    return turns, pages


class Pages:
    def __init__(self, pages: list[str]) -> None:
        self.left = list(pages)

    async def __call__(self, query: str) -> ToolReply:
        return ToolReply(self.left.pop(0), "ok")


@pytest.mark.skipif(qwen_folder() is None, reason=NO_QWEN)
@pytest.mark.parametrize("context", ["history", "window:1"])
def test_every_prompt_starts_with_what_was_shown_and_written_before(context: str) -> None:
    tokens, several = qwen_tokens("qwen2.5"), 0
    for rollout in rollouts()[:25]:
        turns, pages = turns_of(rollout)
        agent = make_agent(tokens, context=context, limits=LIMITS, search=Pages(pages))  # type: ignore[arg-type]
        task = Task("r", rollout["question"] or "?")
        trajectory = asyncio.run(agent.run(task, ScriptedModel(tokens, turns)))
        several += len(trajectory.turns) > 1
        for before, after in zip(trajectory.turns, trajectory.turns[1:], strict=False):
            assert len(before.observation_ids) <= LIMITS.max_observation_tokens + 32
            if context == "history":
                start = before.prompt_ids + before.response_ids
                assert after.prompt_ids[: len(start)] == start
        rows = trajectory.rows()
        assert sum(sum(row.response_mask) for row in rows) == sum(
            len(turn.response_ids) for turn in trajectory.turns
        )
        assert Trajectory.from_record(json.loads(json.dumps(trajectory.to_record()))) == trajectory
        for row in rows:
            for turn, start, end in row.memory_spans:
                assert tokens.decode(row.response_ids[start:end]).startswith("<mem>")
                assert tokens.decode(row.response_ids[start:end]).rstrip("\n").endswith("</mem>")
                assert trajectory.turns[turn].memory_span is not None
    assert several > 5


def test_the_scorer_agrees_with_the_published_figures_of_these_rollouts() -> None:
    scores = [score_answer(rollout["pred_ans"], [[rollout["answer"]]]) for rollout in rollouts()]
    assert sum(score.em_mean for score in scores) / len(scores) == pytest.approx(0.576, abs=0.002)
    assert sum(score.f1_mean for score in scores) / len(scores) == pytest.approx(0.713, abs=0.002)
