"""What the values of a config may be, beside the nonsense of test_nonsense.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf, open_dict

pytest.importorskip("verl", reason="the checks of a config read verl's own")

from tools.run import settings
from tools.run.errors import ConfigFaults, RunError
from tools.run.schema.faults import faults
from tools.run.schema.unknown import nearest
from tools.run.settings import find_recipe, load_config


@pytest.fixture(scope="module")
def composed() -> DictConfig:
    return settings._compose(find_recipe("cpu"), [])


@pytest.fixture
def cpu(composed: DictConfig) -> DictConfig:
    config = composed.copy()
    OmegaConf.set_struct(config, False)
    return config


def told(config: DictConfig, given: dict[str, object]) -> list[str]:
    with open_dict(config):
        for key, value in given.items():
            OmegaConf.update(config, key, value, merge=False, force_add=True)
    return faults(config)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("seed", -1, "seed is -1: write a whole number of at least 0"),
        ("memory.weight", float("nan"), "memory.weight is nan: write a number of at least 0"),
        ("memory.threshold_p", 1, "memory.threshold_p is 1: write a number above 0 and below 1"),
        ("agent.max_turns", 2.5, "agent.max_turns is 2.5: write a whole number of at least 1"),
        ("agent.max_turns", True, "agent.max_turns is true: write a whole number of at least 1"),
        ("search.port", 99999999, "search.port is 99999999: write a whole number of at most 65535"),
        ("search.deadline_s", 0, "search.deadline_s is 0: write a number above 0"),
        ("search.url", "host:8000", "search.url is 'host:8000': write an address, e.g. http://host:8000, or null"),
        ("run.name", "../x", "run.name is '../x': write letters, digits, dots, dashes and underscores"),
        ("agent.context", "window:0", "agent.context is 'window:0': write history, window:k"),
        ("agent.name", "selfmemory", "agent.name is 'selfmemory': write one of self_memory, react"),
        ("actor_rollout_ref.rollout.temperature", -1, "rollout.temperature is -1: write a number above 0"),
        ("actor_rollout_ref.actor.optim.lr", float("nan"), "optim.lr is nan: write a number above 0 and of at most 1"),
        (
            "actor_rollout_ref.actor.optim.lr",
            "1e-6",
            "optim.lr is '1e-6': write a number above 0 and of at most 1; what is there is text, so leave out the quotes",
        ),
        ("actor_rollout_ref.actor.ppo_mini_batch_size", 0, "ppo_mini_batch_size is 0: write a whole number"),
        ("actor_rollout_ref.rollout.n", 1, "n is 1: write a whole number of at least 2; GRPO compares rollouts"),
        ("actor_rollout_ref.actor.shuffle", True, "shuffle is true: it would tear trajectories out of their mini-batch; write"),
        (
            "actor_rollout_ref.actor.checkpoint.save_contents",
            ["model"],
            "save_contents is ['model']: it must list hf_model: the evaluation loads it",
        ),
        ("trainer.logger", ["nonsense"], "trainer.logger is ['nonsense']: its entry 'nonsense' is wrong: write one of wandb,"),
        ("trainer.total_epochs", 0, "trainer.total_epochs is 0: write"),
        ("trainer.device", "tpu", "trainer.device is 'tpu': write one of cpu, cuda"),
        ("trainer.n_gpus_per_node", 0, "trainer.n_gpus_per_node is 0: write"),
        ("trainer.resume_mode", "nonsense", "trainer.resume_mode is 'nonsense': write one of auto, disable, resume_path"),
        ("trainer.save_freq", None, "trainer.save_freq is null: write a whole number of at least 1; without checkpoints"),
        ("task.train", 10**12, "task.train is 1000000000000: write a whole number of at most 2147483647, or null"),
        ("task.data_dir", "x", "task.data_dir belongs to another task: choose it with task=parquet"),
        ("memory.wieght", 1, "memory.wieght is unknown: did you mean memory.weight?"),
        ("agent.weight", 1, "agent.weight is unknown: did you mean memory.weight?"),
        ("run.sft.qzx", 1, "run.sft.qzx is unknown: remove it"),
        ("run.path", "x", "run.path is 'x': the run fills it in; set run.dir and run.name"),
        ("memory", "abc", "memory is 'abc': it is a group of keys; write memory.weight and what else it holds"),
        ("trainer.v1", None, "trainer.v1 is null: it is a group of keys; write trainer.v1.trainer_mode and"),
        ("seed", "???", "seed is not set: write a value, or take back what removed it"),
        ("memory.weight", "${nowhere}", "memory.weight cannot be read: Interpolation key 'nowhere' not found"),
        ("agent.max_context_tokens", "abc", "agent.max_context_tokens is 'abc': write a whole number"),
    ],
)  # fmt: skip
def test_a_fault_is_one_line(cpu: DictConfig, key: str, value: object, line: str) -> None:
    (said,) = told(cpu, {key: value})
    assert line in said, "what takes its value from a faulty key is not told again"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("run.name", "nonsense"),
        ("run.name", 2026),
        ("search.url", "http://[::1]:8000/retrieve"),
        ("agent.verifier", "my.module:score"),
        ("trainer.logger", "console"),
        ("trainer.max_actor_ckpt_to_keep", None),
        ("actor_rollout_ref.rollout.temperature", 1),
        ("actor_rollout_ref.actor.kl_loss_type", "k3+"),
        ("memory.weight", "${memory.threshold_p}"),
        ("my.own", 1),
    ],
)
def test_what_may_be_written(cpu: DictConfig, key: str, value: object) -> None:
    assert told(cpu, {key: value}) == []


def test_an_agent_of_ones_own_may_take_keys_that_we_do_not_know(cpu: DictConfig) -> None:
    own = {"agent.name": "my.module:build", "agent.rounds": 3, "agent.prompt": {"any": "thing"}}
    assert told(cpu, own) == []
    (line,) = told(cpu, {"agent.max_turns": "abc"})  # the trainer reads this one
    assert line.startswith("agent.max_turns is 'abc'")


def test_a_cold_start_needs_its_keys(cpu: DictConfig) -> None:
    assert told(cpu, {"run.cold_start": "reading"}) == [
        f"run.sft.{key} is not set: write a value, or take back what removed it"
        for key in ("demonstrations", "forgetful")
    ]


def test_what_is_deleted_added_or_given_at_once_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("defaults: [cpu, _self_]\nrun: {eval_question: 5}\nsearch: abc\n")
    with pytest.raises(ConfigFaults) as caught:
        load_config(
            find_recipe(str(tmp_path / "mine.yaml")),
            ["~agent.max_context_tokens", "~memory", "+agent.foo=1", "seed=-1", "trainer.save_freq=null"],
        )
    assert [line.split(" is ")[0] for line in caught.value.faults] == [
        "seed",
        "agent.max_context_tokens",
        "memory",
        "search",
        "trainer.save_freq",
        "agent.foo",
        "run.eval_question",
    ]
    assert "memory is not set, and with it memory.weight and what else it holds" in str(caught.value)
    assert "run.eval_question is unknown: did you mean run.eval_questions?" in str(caught.value)


def test_a_slip_of_verls_keys_is_known_by_its_neighbours() -> None:
    known = ["trainer.save_freq", "trainer.nnodes", "memory.weight", "task.seed", "seed"]
    assert nearest("trainer.save_frequ", known) == "trainer.save_freq"
    assert nearest("save_freq", known) == "trainer.save_freq"
    assert nearest("agent.weight", known) == "memory.weight"
    assert nearest("trainer.nonsense", known) is None


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("agent.verifier=tagged", "agent.verifier is a key that this recipe does not have: write +agent.verifier=..."),
        ("task=quiz", "task is 'quiz': write one of hotpotqa, parquet, reading, world"),
        ("memory.weight=[1", "this override cannot be read: no viable alternative at input '[1'; write KEY=VALUE"),
        ("search.url=http://[::1", "what was given is search.url=http://[::1"),
        ("run.dir=~/x#", "this override cannot be read: run.dir=~/x#; write KEY=VALUE"),
        ("=5", "Config group override must be a string or a list"),
        ("trainer.logger={a: 1}", "trainer.logger is {a: 1}: what stands there is a list, a group of keys or"),
    ],
)  # fmt: skip
def test_what_hydra_cannot_compose_is_one_line(override: str, said: str) -> None:
    with pytest.raises(RunError) as caught:
        load_config(find_recipe("cpu"), [override])
    *head, line = str(caught.value).splitlines()
    assert said in line
    assert head in ([], ["1 problem(s) with this config:"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"defaults: [cpu, _self_]\nmemory: {weight: 0.5\n", "line 3, column 1"),
        (b"defaults: [cpu, _self_]\nseed: 1\nseed: 2\n", "duplicate key seed"),
        (b"\xff\xfe", "can't decode byte"),
        (b"defaults: 3\n", "defaults must be a list"),
        (b"defaults: [nonsense]\n", "'nonsense', in the defaults of mine, is no file"),
        (b"", "the keys `run` and `task` are missing"),
    ],
)  # fmt: skip
def test_a_recipe_of_ones_own_that_is_wrong_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "mine.yaml").write_bytes(content)
    with pytest.raises(RunError) as caught:
        load_config(find_recipe(str(tmp_path / "mine.yaml")), [])
    assert said in str(caught.value).splitlines()[-1]
    assert len(str(caught.value).splitlines()) == 1 + isinstance(caught.value, ConfigFaults)
