"""Options that several commands share, declared once as the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import typer

Function = Callable[..., None]


def command(app: typer.Typer, name: str) -> Callable[[Function], Function]:
    """Registers a function as a command whose first parameter is a dataclass: each of its fields becomes an option.

    The fields carry typer's annotations; further parameters of the function become options as usual.
    """

    def register(function: Function) -> Function:
        first, *own = inspect.signature(function).parameters.values()
        hints = get_type_hints(function, include_extras=True)
        group = hints[first.name]
        shared = inspect.signature(group).parameters
        hints |= get_type_hints(group, include_extras=True)

        def run(**values: Any) -> None:
            options = group(**{key: values.pop(key) for key in shared})
            function(options, **values)

        parameters = [
            # by name only: then a required option may follow an optional one
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[each.name])
            for each in (*shared.values(), *own)
        ]
        run.__doc__ = function.__doc__
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        app.command(name)(run)
        return function

    return register
