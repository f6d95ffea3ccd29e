"""Shared by the tests of the verl layer: a tokenizer, verl's real config, and trajectories made by the scripted agent."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("verl", reason="the verl layer needs the cpu or gpu extra")

from mempo.agents.base import Generation
from mempo.task import Task
from mempo.tokens import ChatTokens
from tests.verl_patches.scripted import build_scripted
from tests.verl_patches.tiny import tiny_tokenizer

CONFIGS = Path(__file__).parent / "configs"


@pytest.fixture(scope="session")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="session")
def tokens(tokenizer):
    return ChatTokens(tokenizer)


@pytest.fixture(scope="session")
def compose(tmp_path_factory):
    """Composes verl's real ppo_trainer with the tests' config on top: `compose("key=value", ...)`."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    root = tmp_path_factory.mktemp("root")

    def composed(*overrides):
        with initialize_config_dir(str(CONFIGS), version_base=None):
            return hydra_compose("tiny", overrides=[f"root={root}", *overrides])

    return composed


class FakeClient:
    """verl's `LLMServerClient` without a server: remembers its requests and always writes the same tokens."""

    def __init__(self, token_ids, logprobs=None, error=None, version=3):
        self.token_ids, self.error, self.version = token_ids, error, version
        self.logprobs = [-0.5] * len(token_ids) if logprobs is None else logprobs
        self.requests = []

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        self.requests.append(SimpleNamespace(id=request_id, prompt_ids=prompt_ids, params=sampling_params))
        if self.error:
            raise self.error
        return SimpleNamespace(
            token_ids=self.token_ids,
            log_probs=self.logprobs,
            stop_reason="completed",
            extra_fields={"min_global_steps": self.version, "max_global_steps": self.version},
        )


@pytest.fixture
def fake_client():
    return FakeClient


@pytest.fixture
def roll(tokens):
    """A trajectory of the scripted agent: `await roll("window:1", question="q1", said=[5])`."""

    class Says:
        def __init__(self, ids):
            self.ids = ids

        async def generate(self, prompt_ids, *, max_tokens, turn):
            return Generation(list(self.ids), [-0.5] * len(self.ids))

    async def rolled(context="window:1", question="q1", said=(70, 71), fault="none"):
        settings = {
            "prompt": "brief",
            "context": context,
            "max_turns": 3,
            "max_response_tokens": 96,
            "max_observation_tokens": 32,
            "max_context_tokens": 640,
            "fault": fault,
        }
        agent = build_scripted(settings, tokens, None)
        return await agent.run(Task(question, "king of town?"), Says(said))

    return rolled
