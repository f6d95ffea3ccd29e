"""Requests that all failed: an end by name, never a result, and early where the endpoint refuses every one alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from eval.endpoint import RETRIED_STATUSES
from eval.errors import EvalError
from eval.sample import Sample

ALIKE = (
    8  # refusals in the same words, and nothing else before them, after which no further question is asked
)

Failure = tuple[str, str]  # cause and message, as in a failed sample

_KEY = "put a valid key into the environment variable of --api-key-env"
_ADDRESS = "check --endpoint, --model and --api"
_REQUEST = (
    "the endpoint takes no such request: try --api, other lengths, or another server in front of the model"
)
_BUSY = "lower --concurrency, or raise --deadline"
_REMEDIES = {
    **dict.fromkeys(("status_401", "status_402", "status_403"), _KEY),
    **dict.fromkeys(("status_404", "status_405", "connection"), _ADDRESS),
    **dict.fromkeys(("status_400", "status_413", "status_415", "status_422", "status_501"), _REQUEST),
    **dict.fromkeys(("status_429", "status_503", "retry_after", "timeout"), _BUSY),
}


class Refusals:
    """The samples of a run as they may be written: the first ones only once it is clear that they are not all refused alike.

    A refusal is an answer that the same request would get again: a status 4xx that is not retried, or 501. What one
    question's length brings about differs from question to question in its words.
    """

    def __init__(self) -> None:
        self._held: list[Sample] = []
        self._decided = False

    def passed(self, sample: Sample) -> list[Sample]:
        """The samples that may be written now that this one has come.

        Raises:
            EvalError: this is refusal number `ALIKE`; none of them was let through, so that the questions stay open.
        """
        self._held.append(sample)
        if not self._decided and not refused_alike([failure_of(each) for each in self._held]):
            self._decided = True
        if self._decided:
            return self.rest()
        if len(self._held) == ALIKE:
            failures = [failure_of(each) for each in self._held]
            raise EvalError(f"{_told(failures, f'the first {ALIKE} questions')}; no further one was asked")
        return []

    def rest(self) -> list[Sample]:
        """The samples still held back."""
        held, self._held = self._held, []
        return held


def failure_of(sample: Sample) -> Failure | None:
    """Cause and message of a failed sample; None of any other."""
    failure = sample["failure"]
    return (failure["cause"], failure["message"]) if failure else None


def refused_alike(failures: Sequence[Failure | None]) -> bool:
    """Whether all of them are one and the same refusal."""
    first = failures[0] if failures else None
    return first is not None and _is_refusal(first[0]) and all(each == first for each in failures)


def check_any_answered(failures: Sequence[Failure | None], *, what: str = "questions") -> None:
    """Raises EvalError if there are failures and nothing else: the main cause, what the server said, and the remedy."""
    if failures and all(failures):
        raise EvalError(_told(failures, f"all {len(failures)} {what}"))


def told_failure(failure: Failure) -> str:
    """`status_401: HTTP 401: … (put a valid key …)`."""
    cause, message = failure
    remedy = f" ({_REMEDIES[cause]})" if cause in _REMEDIES else ""
    return f"{cause}: {message[:500]}{remedy}"


def _told(failures: Sequence[Failure | None], what: str) -> str:
    known = [failure for failure in failures if failure]
    counts = Counter(cause for cause, _ in known).most_common()
    first = next(failure for failure in known if failure[0] == counts[0][0])
    causes = ", ".join(f"{cause} {count}" for cause, count in counts)
    return f"{what} failed ({causes}); {told_failure(first)}"


def _is_refusal(cause: str) -> bool:
    found = re.fullmatch(r"status_(\d{3})", cause)
    status = int(found[1]) if found else 0
    return status == 501 or (400 <= status < 500 and status not in RETRIED_STATUSES)
