"""HOME and TMPDIR as every process of ours needs them: writable, and TMPDIR short enough for a socket's path.

Ray, vLLM, Triton and others write below `~` and put sockets below TMPDIR, and fail late, in a process far away, where they
cannot. Standard library only: it comes before anything else is imported.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

SOCKET_BYTES = 107  # the longest path of a Unix socket on Linux
# Of these Ray takes most: ray/session_<date>_<time>_<microseconds>_<pid>/sockets/plasma_store
LONGEST_TMPDIR = SOCKET_BYTES - 70
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PROXIES = ("http_proxy", "https_proxy", "all_proxy")
# Files below ~ that are read, not written: they stay where they are.
READ_FROM_HOME = {
    "HF_HOME": ".cache/huggingface",
    "NETRC": ".netrc",
    "RAY_AUTH_TOKEN_PATH": ".ray/auth_token",
}
# Written also where models are only read; relative to HF_HOME.
HUGGING_FACE = {"HF_DATASETS_CACHE": "datasets", "HF_MODULES_CACHE": "modules", "HF_XET_CACHE": "xet"}


class FolderError(RuntimeError):
    """No writable folder is left; the message says what to set."""


@dataclass
class Changes:
    """Variables to set, and a line for the user about each that replaces a value of theirs."""

    variables: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def apply_usable_folders(spare: Path) -> list[str]:
    """Changes this process' environment, which its children inherit, and returns the lines to tell the user.

    Args:
        spare: a home is made below it if the user's cannot be written to.

    Raises:
        FolderError: neither the user's folders nor any of ours can be written to.
    """
    changes = usable_folders(os.environ, spare, _short_folder)
    os.environ.update(changes.variables)
    if "TMPDIR" in changes.variables:
        tempfile.tempdir = None  # decided anew
    return changes.notes


def usable_folders(environment: Mapping[str, str], spare: Path, short_folder: Callable[[], Path]) -> Changes:
    """What has to change in `environment`; nothing where all is well. See `apply_usable_folders`.

    Args:
        short_folder: makes a private folder for sockets.
    """
    changes = Changes()
    _home(environment, spare, changes)
    _hugging_face({**environment, **changes.variables}, spare, changes)
    _temporary(environment, short_folder, changes)
    _proxies(environment, changes)
    return changes


def is_writable(folder: Path) -> bool:
    """Whether a file can be made in `folder`; tried, for permissions do not tell of read-only file systems or of root."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _home(environment: Mapping[str, str], spare: Path, changes: Changes) -> None:
    said = environment.get("HOME")
    try:
        home = Path(said) if said else Path.home()
    except RuntimeError:  # neither HOME nor an entry for this user
        home = None
    if home is not None and is_writable(home):
        if not said:
            changes.variables["HOME"] = str(home)
        return
    ours = spare.absolute() / "home"
    with suppress(OSError):
        ours.mkdir(parents=True, exist_ok=True)
    if not is_writable(ours):
        raise FolderError(
            f"neither HOME ({home}) nor {ours} can be written to: set HOME to a folder that can"
        )
    changes.variables["HOME"] = str(ours)
    changes.notes.append(f"HOME ({home}) cannot be written to: {ours} takes its place")
    for name, place in READ_FROM_HOME.items():
        if home is not None and name not in environment and os.access(home / place, os.R_OK):
            changes.variables[name] = str(home / place)


def _hugging_face(environment: Mapping[str, str], spare: Path, changes: Changes) -> None:
    """A folder of models may be read-only (a shared one, or that of such a home); its caches may not."""
    home = environment.get("HF_HOME")
    if not home or not os.path.isdir(home):
        return
    for name, place in HUGGING_FACE.items():
        folder = Path(home) / place
        if name not in environment and not is_writable(folder if folder.is_dir() else folder.parent):
            changes.variables[name] = str(spare.absolute() / "huggingface" / place)


def _temporary(environment: Mapping[str, str], short_folder: Callable[[], Path], changes: Changes) -> None:
    folder = environment.get("TMPDIR") or "/tmp"
    length = len(os.fsencode(folder))
    if length <= LONGEST_TMPDIR and is_writable(Path(folder)):
        return
    ours = short_folder()
    if is_writable(Path(folder)):
        link = ours / "t"
        link.symlink_to(Path(folder).absolute())  # the files stay on the disk that the user wants
        changes.variables["TMPDIR"] = str(link)
        changes.notes.append(
            f"TMPDIR has {length} bytes, too many for the path of a socket: it is called {link} as long as this runs"
        )
    else:
        changes.variables["TMPDIR"] = str(ours)
        changes.notes.append(f"TMPDIR ({folder}) cannot be written to: {ours} takes its place")


def _short_folder() -> Path:
    """A folder of mode 0700 with a short path, removed when this process ends."""
    for parent in ("/tmp", "/dev/shm", "/var/tmp"):
        try:
            made = Path(tempfile.mkdtemp(prefix="mempo-", dir=parent))
        except OSError:
            continue
        atexit.register(_remove, made, os.getpid())
        return made
    raise FolderError(
        f"no writable folder for sockets: set TMPDIR to one with a path of at most {LONGEST_TMPDIR} bytes"
    )


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork of it
        shutil.rmtree(folder, ignore_errors=True)


def _proxies(environment: Mapping[str, str], changes: Changes) -> None:
    """Calls to this machine never take a proxy."""
    if not any(environment.get(name) or environment.get(name.upper()) for name in PROXIES):
        return
    # Both spellings hold the same: most programs read the small one first, and then only that.
    names = ("no_proxy", "NO_PROXY")
    given = ",".join(environment.get(name, "") for name in names).split(",")
    listed = list(dict.fromkeys(filter(None, map(str.strip, given))))
    hosts = listed if "*" in listed else [*listed, *(host for host in LOOPBACK if host not in listed)]
    for name in names:
        if environment.get(name) != ",".join(hosts):
            changes.variables[name] = ",".join(hosts)
