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
        ValueError: it cannot be pickled, as a lambda or a function inside a function cannot; or it is a function of the
            program itself, which other processes do not import.
    """
    if getattr(function, "__module__", None) == "__main__":
        raise ValueError(
            f"{function!r} cannot go to another process: it belongs to the program itself. Move it to a module of its own"
        )
    try:
        return pickle.dumps((function, args), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise ValueError(
            f"{function!r} cannot go to another process: {_said(error)}. "
            "Take a function of a module, and plain arguments"
        ) from error


def perform(call: bytes, begin: Callable[[], None]) -> bytes:
    """Carries out a packed call; never raises, whatever the function does, for then its process would be lost with it.

    Args:
        begin: called when all is imported and the function is about to run; not called if it does not come to that.

    Returns:
        a reply for `unpack`.
    """
    try:
        function, args = pickle.loads(call)
        begin()
        return pickle.dumps((True, function(*args)), protocol=pickle.HIGHEST_PROTOCOL)
    except RolloutError as error:
        return failed(str(error.cause), _said(error))
    except BaseException as error:  # sys.exit() as well
        logger.exception("a call in the process pool failed")
        last = traceback.extract_tb(error.__traceback__)[-1]
        name = type(error).__name__
        return failed(name, f"{name}: {_said(error)} ({last.filename}, line {last.lineno})")


def failed(cause: str, message: str) -> bytes:
    """The reply of a call that did not return."""
    return pickle.dumps((False, (cause, message)))


def unpack(reply: bytes) -> Any:
    """What the function returned.

    Raises:
        RolloutError: it raised, with its exception's class as the cause, or it never came to an end (`failed`);
            `pool_reply_unreadable` if it returned what cannot be unpickled.
    """
    try:
        returned, value = pickle.loads(reply)
    except Exception as error:
        raise RolloutError(
            "pool_reply_unreadable",
            f"its result came back but cannot be unpickled: {type(error).__name__}: {_said(error)}",
        ) from error
    if returned:
        return value
    raise RolloutError(*value)


def _said(error: BaseException) -> str:
    """The text of an exception, whose class may come from anywhere."""
    try:
        return str(error)
    except Exception as fault:
        return f"(its text cannot be read: {type(fault).__name__})"
