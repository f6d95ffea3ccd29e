"""A logger that fails costs its own output only."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from verl_patches import tracking
from verl_patches.tracking import SeparateTracking


class Fake:
    """verl's Tracking with one backend; `no_key` cannot start, `no_network` cannot log."""

    logged: list[tuple[str, int]]

    def __init__(self, project: str, experiment: str, names: list[str], config: Any) -> None:
        (self.name,) = names
        if self.name == "no_key":
            raise RuntimeError("no API key")

    def log(self, data: dict[str, Any], step: int, backend: Any = None) -> None:
        if self.name == "no_network":
            raise ConnectionError("unreachable")
        Fake.logged.append((self.name, step))

    def finish(self, exit_code: int = 0) -> None:
        Fake.logged.append((self.name, -1))


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    Fake.logged = []
    monkeypatch.setattr(tracking, "Tracking", Fake)


def test_the_others_get_every_step_and_the_loss_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    loggers = SeparateTracking("p", "e", ["no_key", "console", "no_network"])
    assert loggers.live == ["console", "no_network"]
    for step in (1, 2):
        loggers.log({"x": 1}, step)
    loggers.finish()
    assert Fake.logged == [("console", 1), ("console", 2), ("console", -1)]
    assert loggers.metrics() == {"loggers/lost/no_key": 1, "loggers/lost/no_network": 1}
    said = capsys.readouterr().err
    assert said.count("logger no_key failed") == said.count("logger no_network failed") == 1
    assert "no API key" in said


def test_a_table_goes_to_one_logger_at_a_time_and_the_config_keeps_those_that_took_it() -> None:
    loggers = SeparateTracking("p", "e", ["console", "file"])
    config = OmegaConf.create({"trainer": {"logger": ["console", "file"]}})
    seen: list[str] = []

    def table() -> None:
        seen.extend(config.trainer.logger)
        if config.trainer.logger == ["file"]:
            raise OSError("no table here")

    loggers.one_by_one(config, table)
    assert seen == ["console", "file"]
    assert (config.trainer.logger, list(loggers.lost)) == (["console"], ["file"])


def test_verls_trainer_builds_it() -> None:
    from verl.trainer.ppo.v1 import trainer_base

    before = trainer_base.Tracking
    try:
        tracking.install_separate_tracking(trainer_base)
        assert trainer_base.Tracking is SeparateTracking
        assert (
            "Tracking" in trainer_base.PPOTrainer.fit.__code__.co_names
        )  # the name that the patch relies on
    finally:
        trainer_base.Tracking = before
