"""A function call on its way to another process, and the reply on its way back, both as bytes."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable
from typing import Any

from mempo.agents.base import RolloutError

logger = logging.getLogger(__name__)


def pack(function: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    """The call `function(*args)`.

    Raises:
        ValueError: it cannot be pickled, as a lambda or a function inside a function cannot.
    """
    try:
        return pickle.dumps((function, args), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise ValueError(
            f"{function!r} cannot go to another process: {error}. Take a function of a module, and plain arguments"
        ) from error


def perform(call: bytes) -> bytes:
    """Carries out a packed call; never raises, whatever the function does, for then its process would be lost with it.

    Returns:
        a reply for `unpack`.
    """
    try:
        function, args = pickle.loads(call)
        return pickle.dumps((True, function(*args)), protocol=pickle.HIGHEST_PROTOCOL)
    except RolloutError as error:
        return failed(error.cause, str(error))
    except BaseException as error:  # sys.exit() as well
        logger.exception("a call in the process pool failed")
        last = traceback.extract_tb(error.__traceback__)[-1]
        return failed(
            type(error).__name__, f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
        )


def failed(cause: str, message: str) -> bytes:
    """The reply of a call that did not return."""
    return pickle.dumps((False, (cause, message)))


def unpack(reply: bytes) -> Any:
    """What the function returned.

    Raises:
        RolloutError: it raised, with its exception's class as the cause, or it never came to an end (`failed`).
    """
    returned, value = pickle.loads(reply)
    if returned:
        return value
    raise RolloutError(*value)
