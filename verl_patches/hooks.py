"""Runs a function right after a module has been imported, in whichever process imports it.

`verl_patches.plugin` is loaded at the end of `verl/__init__.py`, when most of verl cannot be imported yet, and again in
every Ray actor and vLLM subprocess. A hook waits for the one module that it is about.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

Hook = Callable[[ModuleType], None]

_hooks: dict[str, list[Hook]] = {}


def after_import(module_name: str, hook: Hook) -> None:
    """Calls `hook(module)` once the named module is loaded; at once if it already is."""
    module = sys.modules.get(module_name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        hook(module)
        return
    if not any(isinstance(finder, _HookFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _HookFinder())
    _hooks.setdefault(module_name, []).append(hook)


class _HookFinder(importlib.abc.MetaPathFinder):
    """Finds a hooked module with the other finders and runs its hooks after its code."""

    def __init__(self) -> None:
        self._searching: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _hooks or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching.discard(fullname)
        if spec is None or spec.loader is None:
            return None
        run_module = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run_module(module)
            for hook in _hooks.pop(fullname, []):
                hook(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
