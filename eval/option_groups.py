"""A command whose first parameter is a dataclass: each field becomes an option, so that commands can share them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command for typer: the dataclass's fields, which carry typer's annotations, then its own parameters."""
    group, *own = inspect.signature(command, eval_str=True).parameters.values()
    shared = inspect.signature(group.annotation, eval_str=True).parameters

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        options = group.annotation(**{name: values.pop(name) for name in shared})
        command(options, **values)

    # By name only: then a required option may follow an optional one.
    parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in (*shared.values(), *own)]
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {each.name: each.annotation for each in parameters}
    return flat
