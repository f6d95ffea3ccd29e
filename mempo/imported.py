"""Functions of a user's own, named in a config as `package.module:function`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any


def imported(key: str, name: str, known: Iterable[str]) -> Callable[..., Any]:
    """The function that `name` stands for.

    Args:
        key: the config key that holds `name`; errors say it.
        known: the names that the key takes besides, for the error.

    Raises:
        ValueError: `name` has another form, or there is no such function.
    """
    module, _, function = name.partition(":")
    if not module or not function:
        raise ValueError(f"{key} is {name!r}; known are {', '.join(known)}, or write module:function")
    try:
        found = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{key} is {name!r}, which cannot be imported: {error}; the module's folder must be on PYTHONPATH"
        ) from error
    except Exception as error:  # whatever the user's module raises while it is imported
        raise ValueError(
            f"{key} is {name!r}, which cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not callable(found):
        raise ValueError(f"{key} is {name!r}, which is no function but of type {type(found).__name__}")
    result: Callable[..., Any] = found
    return result
