"""A disk that takes no more: recognised whatever raised the error, and told in one line."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from verl_patches.resume import newest_whole

REASONS = {
    errno.ENOSPC: "disk full",
    errno.EDQUOT: "disk quota used up",
    errno.EFBIG: "file size limit reached",
}
# What is left of the cause in the text of an error: of safetensors, of Ray's workers, of torch (which drops the number).
_SAID = {
    errno.ENOSPC: re.compile(r"No space left on device|os error 28\b|Errno 28\b", re.I),
    errno.EDQUOT: re.compile(r"Disk quota exceeded|os error 122\b|Errno 122\b", re.I),
    errno.EFBIG: re.compile(r"File too large|os error 27\b|Errno 27\b", re.I),
}
_TORCH = re.compile(r"PytorchStreamWriter failed writing|inline_container.*unexpected pos \d+ vs \d+")
_MIB = 1 << 20


class DiskFull(RuntimeError):
    """The reason, and what was being written: `disk full: while writing X in FOLDER (N MiB free)`."""


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Around the writing of a file, a folder or, in words, of something else: if the disk refuses, it is named.

    Raises:
        DiskFull: in place of the error that said so.
    """
    try:
        yield
    except Exception as error:
        reason = None if _told(error) else refusal(error)
        if reason is None:
            raise
        raise DiskFull(_sentence(reason, getattr(error, "filename", None) or path)) from error


def disk_full(error: BaseException, checkpoints: Path) -> str | None:
    """The one line for a user, if a disk that takes no more is behind an error; else None.

    Args:
        checkpoints: the run's; the line names the last one that is whole.
    """
    told = _told(error)
    if told is None:
        reason = refusal(error)
        if reason is None:
            return None
        names = (getattr(each, "filename", None) for each in _chain(error))
        filename = next((name for name in names if name), None)
        told = _sentence(reason, filename or "a file")
    if "MiB free" not in told:
        told += f" ({free_mib(checkpoints)} MiB free at {checkpoints})"
    step = newest_whole(checkpoints)
    last = "none" if step is None else f"step {step}"
    return f"{told}; last complete checkpoint: {last}; free space and start the same command again"


def refusal(error: BaseException) -> str | None:
    """Why the disk took no more, from an error, its causes, or what they say; None for any other error."""
    for each in _chain(error):
        if isinstance(each, OSError) and each.errno in REASONS:
            return REASONS[each.errno]
        if reason := said_refusal(str(each)):
            return reason
    return None


def said_refusal(text: str) -> str | None:
    """The same of a text: an error's, or the end of a log."""
    for number, pattern in _SAID.items():
        if pattern.search(text):
            return REASONS[number]
    return "disk full, or a quota used up" if _TORCH.search(text) else None


def free_mib(path: Path) -> int:
    """MiB that are free where `path` lies or will lie."""
    place = next((each for each in (path, *path.parents) if each.exists()), Path("/"))
    return shutil.disk_usage(place).free // _MIB


def _sentence(reason: str, what: Path | str) -> str:
    """Of a path its name, its folder and the space there; of words the words."""
    path = Path(what)
    if path.is_absolute():
        return f"{reason}: while writing {path.name} in {path.parent} ({free_mib(path)} MiB free)"
    return f"{reason}: while writing {what}"


def _told(error: BaseException) -> str | None:
    """What `writing` said, also through Ray."""
    return next((str(each) for each in _chain(error) if type(each) is DiskFull), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and all behind it: causes, contexts, members of a group, and what Ray carried here."""
    waiting: list[object] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop(0)
        if not isinstance(each, BaseException) or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [getattr(each, "cause", None), each.__cause__, each.__context__]
        waiting += getattr(each, "exceptions", ())
