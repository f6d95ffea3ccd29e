"""Failed sessions: counted by cause, never refilled, and never silently many."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mempo.agents.base import RolloutError
from mempo.trajectory import ContractViolation


class RunFailed(RuntimeError):
    """The run cannot go on; the message says why, with the causes."""


@dataclass(frozen=True)
class Failure:
    """One session that gave no trajectory: a short cause (a metric name) and one example's message."""

    session: str
    cause: str
    message: str


def cause_of(error: BaseException) -> str:
    """A short name for what went wrong: the cause of a `RolloutError`, else the exception's class."""
    name = error.cause if isinstance(error, RolloutError) else type(error).__name__
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name) or "unknown"


def failure_metrics(failures: Iterable[Failure], prefix: str = "failures") -> dict[str, int]:
    """`failures/<cause>` counts and `failures/total` (present also when nothing failed)."""
    counts = Counter(failure.cause for failure in failures)
    return {f"{prefix}/total": sum(counts.values())} | {
        f"{prefix}/{cause}": counts[cause] for cause in sorted(counts)
    }


def check_failures(failures: list[Failure], sessions: int, max_failed_share: float, step: int) -> None:
    """Stops the run if a step has no trajectory at all, more failed sessions than allowed, or a fault of our own.

    Args:
        sessions: how many sessions the step asked for.

    Raises:
        RunFailed: with the causes, their counts and one message of each.
    """
    broken = [failure for failure in failures if failure.cause == ContractViolation.__name__]
    if broken:
        raise RunFailed(
            f"step {step}: {len(broken)} trajectories break the rules by which rows are made: {describe(broken)}. "
            "This is a fault in the agent or the rollout engine, not in the model's answers"
        )
    if sessions > len(failures) and len(failures) <= max_failed_share * sessions:
        return
    raise RunFailed(
        f"step {step}: {len(failures)} of {sessions} sessions failed "
        f"(memory.max_failed_share allows {max_failed_share:g}): {describe(failures)}"
    )


def describe(failures: list[Failure]) -> str:
    """Causes with counts and the first message of each, on one line."""
    counts = Counter(failure.cause for failure in failures)
    examples = {failure.cause: failure.message for failure in reversed(failures)}
    return (
        "; ".join(f"{count} x {cause} ({examples[cause]})" for cause, count in counts.most_common())
        or "no failures"
    )
