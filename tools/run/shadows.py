"""Folders on PYTHONPATH that hold another copy of a package of this environment: Python would take theirs."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from tools.run.places import ROOT

# Names of folders that many projects have and none of ours imports.
UNUSED = frozenset({"benchmarks", "conftest", "docs", "examples", "scripts", "setup", "test", "tests"})
SHOWN = 4


def shadows(path: str, installed: Sequence[Path] | None = None) -> list[str]:
    """One line per folder of `path` that hides packages, with their names and the remedy.

    Args:
        path: the value of PYTHONPATH.
        installed: the folders of this environment's packages; by default those of this Python.
    """
    folders = [ROOT, *(installed or [Path(sysconfig.get_paths()[name]) for name in ("purelib", "platlib")])]
    ours = {folder.resolve() for folder in folders}
    needed = set(sys.stdlib_module_names).union(*map(_packages, folders))
    found = []
    for entry in dict.fromkeys(filter(None, path.split(os.pathsep))):
        folder = Path(entry)
        if folder.resolve() in ours:
            continue
        hidden = sorted((_packages(folder) & needed) - UNUSED)
        if hidden:
            more = f" and {len(hidden) - SHOWN} more" if len(hidden) > SHOWN else ""
            found.append(
                f"PYTHONPATH has {folder}, where Python would take {', '.join(hidden[:SHOWN])}{more} from instead of this "
                "environment: take the folder out of PYTHONPATH and start again"
            )
    return found


def _packages(folder: Path) -> set[str]:
    """Top-level modules and packages of a folder; a folder without `__init__.py` gives way to a package elsewhere."""
    try:
        entries = list(folder.iterdir())
    except OSError:
        return set()
    return {entry.name for entry in entries if (entry / "__init__.py").is_file()} | {
        entry.name.split(".")[0] for entry in entries if entry.suffix in (".py", ".so") and entry.is_file()
    }
