"""A data folder as a whole: its new files take the place of the earlier ones when all of them are there, not before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.data.manifest import NAME, listed_outputs, remove_outputs
from tools.data.records import DataError


@contextmanager
def replaced(out: Path, inputs: Sequence[Path] = ()) -> Iterator[Path]:
    """Yields an empty folder; at the end its files move to `out`, where the manifest and what it lists are removed before.

    An error in between leaves `out` as it was. The manifest moves last: a folder without one is unfinished.

    Raises:
        DataError: an input is among the files of `out` that would be removed or overwritten.
    """
    _check_apart(out, inputs, listed_outputs(out))
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(
        prefix=".unfinished-", dir=out
    ) as name:  # inside: a file moves within one file system
        scratch = Path(name)
        yield scratch
        files = sorted(scratch.iterdir(), key=lambda path: path.name == NAME)
        _check_apart(out, inputs, [path.name for path in files])
        remove_outputs(out)
        for path in files:
            path.replace(out / path.name)


def _check_apart(out: Path, inputs: Sequence[Path], names: Collection[str]) -> None:
    for path in inputs:
        if path.name in names and path.resolve().parent == out.resolve():
            raise DataError(f"{path} would be removed or overwritten: choose another folder to write to")
