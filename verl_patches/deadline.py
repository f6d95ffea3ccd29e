"""A deadline for calls that verl lets hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from verl_patches.failures import RunFailed

Result = TypeVar("Result")


def with_deadline(
    call: Callable[..., Result], seconds: float, what: str, advice: str
) -> Callable[..., Result]:
    """The same call, which raises if it takes longer than `seconds` or fails.

    The call runs in a thread of its own, which is left behind when the deadline passes: the run ends then.

    Raises:
        RunFailed: with the cause, or with `advice` on where to look for it.
    """

    @wraps(call)
    def limited(*args: Any, **kwargs: Any) -> Result:
        results: list[Result] = []
        errors: list[BaseException] = []

        def target() -> None:
            try:
                results.append(call(*args, **kwargs))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=target, name=what, daemon=True)
        thread.start()
        thread.join(seconds)
        if errors:
            cause = getattr(errors[0], "cause", None) or errors[0]
            raise RunFailed(f"{what} failed: {type(cause).__name__}: {cause}") from errors[0]
        if not results:
            raise RunFailed(f"{what} did not finish in {seconds:g} s. {advice}")
        return results[0]

    return limited
