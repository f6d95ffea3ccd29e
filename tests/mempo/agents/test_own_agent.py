"""The agent that docs/agents.md writes in 40 lines runs, and gives rows, a reward and memory probes."""

import asyncio
import re
import sys
import textwrap
from pathlib import Path

import pytest

from mempo.agents.factory import build_agent
from mempo.memory_scores import MemorySettings, plan_probes
from mempo.reward import outcome_reward
from mempo.task import Reference, Task
from tests.mempo.support import ScriptedModel, small_tokens

PAGE = Path(__file__).parents[3] / "docs" / "agents.md"


@pytest.fixture
def own_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    found = re.search(r"^    # my_agent\.py.*?(?=^\S)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    code = textwrap.dedent(found[0]).strip()
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 48
    (tmp_path / "my_agent.py").write_text(code + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_agent", raising=False)
    return "my_agent:build"


def test_the_agent_of_the_page(own_agent: str) -> None:
    tokens, gold = small_tokens(), Reference([["Oslo"]])
    agent = build_agent({"name": own_agent, "max_response_tokens": 60}, tokens, None)
    model = ScriptedModel(tokens, ["The memory of Oslo", "So \\boxed{Oslo}"])
    trajectory = asyncio.run(agent.run(Task("q1", "Where?"), model))
    assert len(trajectory.rows()) == 2
    assert outcome_reward(trajectory, gold, verifier=agent.verifier).reward == 1.0
    settings = MemorySettings(reference="previous_memory")
    plan = plan_probes(trajectory, gold, tokens, agent.probe_format, settings)
    assert plan.statuses == {0: "scored"}
