"""What docs/agents.md writes out runs: the agent of 40 lines gives rows, a reward and memory probes; so does the reward."""

import asyncio
import re
import sys
import textwrap
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mempo.agents.factory import build_agent
from mempo.memory_scores import MemorySettings, plan_probes
from mempo.pool import pool_in_use
from mempo.process_pool import ProcessPool
from mempo.reward import judge, outcome_reward
from mempo.task import Reference, Task
from tests.mempo.support import ANSWER_TURN, SEARCH_TURN, TASK, ScriptedModel, make_agent, small_tokens

PAGE = Path(__file__).parents[3] / "docs" / "agents.md"


Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Makes a module of the page importable, and returns its code."""

    def written(module: str) -> str:
        found = re.search(rf"^    # {module}\.py.*?(?=^\S)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
        assert found is not None
        code = textwrap.dedent(found[0]).strip()
        (tmp_path / f"{module}.py").write_text(code + "\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, module, raising=False)
        return code

    return written


def test_the_agent_of_the_page(write: Write) -> None:
    assert sum(bool(line.strip()) for line in write("my_agent").splitlines()) <= 48
    tokens, gold = small_tokens(), Reference([["Oslo"]])
    agent = build_agent({"name": "my_agent:build", "max_response_tokens": 60}, tokens, None)
    model = ScriptedModel(tokens, ["The memory of Oslo", "So \\boxed{Oslo}"])
    trajectory = asyncio.run(agent.run(Task("q1", "Where?"), model))
    assert len(trajectory.rows()) == 2
    assert outcome_reward(trajectory, gold, verifier=agent.verifier).reward == 1.0
    settings = MemorySettings(reference="previous_memory")
    plan = plan_probes(trajectory, gold, tokens, agent.probe_format, settings)
    assert plan.statuses == {0: "scored"}


@pytest.mark.parametrize(("gold", "reward"), [("Mira Voss", 1.0), ("mira voss", 0.0)])
def test_the_reward_of_the_page_runs_in_another_process(write: Write, gold: str, reward: float) -> None:
    write("my_reward")
    tokens = small_tokens()

    async def judged() -> float:
        trajectory = await make_agent(tokens).run(TASK, ScriptedModel(tokens, [SEARCH_TURN, ANSWER_TURN]))
        with closing(ProcessPool(1)) as pool, pool_in_use(pool):
            return (await judge(trajectory, Reference([[gold]]), verifier="my_reward:score")).reward

    assert asyncio.run(judged()) == reward
