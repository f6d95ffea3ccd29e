"""verl's loggers, each by itself: one that fails costs its own output, not the run. metrics.jsonl is written in any case."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from omegaconf import DictConfig, open_dict
from verl.utils.tracking import Tracking

LOST = "loggers/lost/"  # a metric of each step: 1 for a logger that has failed


class SeparateTracking:
    """Takes the place of verl's `Tracking`, with one of those for each logger.

    Args:
        default_backend: names of loggers (`trainer.logger`).

    Attributes:
        live: the loggers that still take metrics.
        lost: those that failed, each with the error.
    """

    def __init__(
        self,
        project_name: str,
        experiment_name: str,
        default_backend: str | Sequence[str] = "console",
        config: Any = None,
    ) -> None:
        names = [default_backend] if isinstance(default_backend, str) else list(default_backend)
        self._trackings: dict[str, Any] = {}
        self.lost: dict[str, str] = {}
        for name in names:
            self.attempt(name, partial(self._start, name, project_name, experiment_name, config))

    @property
    def live(self) -> list[str]:
        return list(self._trackings)

    def metrics(self) -> dict[str, float]:
        """`loggers/lost/<name>`: 1 for each that failed."""
        return {f"{LOST}{name}": 1 for name in self.lost}

    def log(self, data: dict[str, Any], step: int, backend: Any = None) -> None:
        """Metrics of a step, to every logger that is left."""
        for name in self.live:
            self.attempt(name, partial(self._trackings[name].log, data, step, backend))

    def finish(self, exit_code: int = 0) -> None:
        """Flushes every logger that is left."""
        for name in self.live:
            self.attempt(name, partial(self._trackings[name].finish, exit_code))

    def one_by_one(self, config: DictConfig, call: Callable[[], None]) -> None:
        """Runs a call of verl's that goes to the loggers of `trainer.logger`, with one of those at a time."""
        for name in self.live:
            with open_dict(config):
                config.trainer.logger = [name]
            self.attempt(name, call)
        with open_dict(config):
            config.trainer.logger = self.live

    def attempt(self, name: str, call: Callable[[], None]) -> None:
        """Runs what one logger does; if that fails the logger is given up, which is said once."""
        try:
            call()
        except Exception as error:
            self._trackings.pop(name, None)
            self.lost[name] = f"{type(error).__name__}: {error}"
            print(
                f"logger {name} failed and gets nothing more: {self.lost[name]}. The run continues; metrics.jsonl has "
                "every step. To do without this logger, leave it out of trainer.logger",
                file=sys.stderr,
                flush=True,
            )

    def _start(self, name: str, project: str, experiment: str, config: Any) -> None:
        self._trackings[name] = Tracking(project, experiment, [name], config)


def install_separate_tracking(module: Any) -> None:
    """Lets verl's V1 trainer build `SeparateTracking`.

    Forced by: `PPOTrainer.fit` builds `Tracking` by that name, and whatever a logger raises there or at a step ends the
    run. Goes when: verl takes the class from the trainer, or survives a logger.
    """
    module.Tracking = SeparateTracking
