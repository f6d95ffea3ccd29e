"""`./run_train.sh cpu --dry-run KEY=NONSENSE` for every key in configs/: a line that names the key, never a traceback."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf, open_dict

pytest.importorskip("verl", reason="the checks of a config read verl's own")

from tests.conftest import ROOT
from tests.tools.run.schema.nonsense import OURS, nonsense, written
from tools.run import settings
from tools.run.__main__ import main
from tools.run.schema.faults import faults
from tools.run.settings import find_recipe

CASES = [(task, key, nonsense(key, values)) for (task, key), values in written().items()]
# What decides which rules the other keys have: with nonsense in it they are not judged.
DECIDING = ("task.name",)


def overrides(task: str, key: str, text: str) -> list[str]:
    # ++ sets a key whether or not the recipe has it; without `task=` the key belongs to every task.
    return [*([f"task={task}"] if task else []), f"++{key}={text}"]


@pytest.fixture(scope="module")
def cpu() -> DictConfig:
    return settings._compose(find_recipe("cpu"), [])


Composed = Callable[[str, dict[str, str]], DictConfig]


@pytest.fixture
def composed(cpu: DictConfig) -> Composed:
    """What Hydra makes of the cpu recipe with a task and some overrides; composing takes most of a command's time."""
    parser = OverridesParser.create()

    def as_hydra_would(task: str, given: dict[str, str]) -> DictConfig:
        config = cpu.copy()
        with open_dict(config):
            if task:
                config.task = OmegaConf.load(ROOT / "configs" / "task" / f"{task}.yaml")
            for key, text in given.items():
                (override,) = parser.parse_overrides([f"{key}={text}"])
                OmegaConf.update(config, key, override.value(), merge=False, force_add=True)
        return config

    return as_hydra_would


def test_there_are_enough_keys() -> None:
    ours = {key for _, key, _ in CASES if key.split(".")[0] in OURS}
    assert len({key for _, key, _ in CASES} - ours) >= 40
    assert {
        "seed",
        "agent.verifier",
        "memory.row_credit",
        "memory.equal_turns",
        "run.sft.forgetful",
        "task.chunks",
    } <= ours
    assert all(len(set(texts)) >= 5 for _, _, texts in CASES)


def column(number: int, task: str) -> dict[str, str]:
    """One nonsense value for every key that a run of `task` can have."""
    return {
        key: texts[number % len(texts)]
        for of_task, key, texts in CASES
        if of_task in ("", task) and key not in DECIDING
    }


def test_nonsense_everywhere_is_one_line_for_each_key(capsys: pytest.CaptureFixture[str]) -> None:
    given = column(0, "world")
    assert main(["cpu", "--dry-run", *(f"++{key}={text}" for key, text in given.items())]) == 1
    said = capsys.readouterr()
    first, *lines = said.err.splitlines()
    assert first == f"error: {len(given)} problem(s) with this config:"
    assert sorted(line.split(" is ")[0].strip() for line in lines) == sorted(given)
    assert said.out == ""


@pytest.mark.parametrize("number", range(1, 5))
def test_so_are_the_other_values(composed: Composed, number: int) -> None:
    given = column(number, "world")
    told = faults(composed("world", given))
    assert sorted(line.split(" is ")[0] for line in told) == sorted(given)


@pytest.mark.parametrize("task", ["hotpotqa", "parquet", "reading", "world"])
def test_so_do_the_keys_of_every_task(composed: Composed, task: str) -> None:
    for number in range(5):
        given = {key: text for key, text in column(number, task).items() if key.startswith("task.")}
        told = faults(composed(task, given))
        assert sorted(line.split(" is ")[0] for line in told) == sorted(given)


def test_a_task_that_there_is_not(composed: Composed) -> None:
    for text in nonsense("task.name", ["world"]):
        (line,) = faults(composed("", {"task.name": text}))
        assert line.startswith("task.name is ")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_nonsense_value_alone_is_the_one_problem(
    composed: Composed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for task, key, texts in CASES:
        for text in texts:
            config = composed(task, {key: text})
            monkeypatch.setattr(settings, "_compose", lambda recipe, overrides, config=config: config)
            assert main(["cpu", "--dry-run", *overrides(task, key, text)]) == 1, (key, text)
            said = capsys.readouterr()
            assert re.fullmatch(rf"error: 1 problem.*\n  {re.escape(key)} is .*\n", said.err), said.err
            assert said.out == ""


def test_a_real_start_refuses_with_the_same_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cpu", "agent.max_turns=abc", "trainer.save_freq=null", f"run.dir={tmp_path}/runs"]
    assert (main([*words, "--dry-run"]), main(words)) == (1, 1)
    said = capsys.readouterr().err
    assert said[: len(said) // 2] == said[len(said) // 2 :]
    assert said.count("problem(s)") == 2
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_key_through_the_whole_command(capsys: pytest.CaptureFixture[str]) -> None:
    """One value for each, another one from key to key."""
    for number, (task, key, texts) in enumerate(CASES):
        words = overrides(task, key, texts[number % len(texts)])
        assert main(["cpu", "--dry-run", *words]) == 1, words
        assert f"\n  {key} is " in capsys.readouterr().err, words
