"""A data folder as a whole: its new files take the place of the earlier ones when all of them are there, not before.

Only what `mempo data` wrote is replaced. Its manifest says what that is, and while files change places a list does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.data.derived import SFT_ROWS, derived_files
from tools.data.manifest import NAME, changed_outputs, listed_outputs
from tools.data.records import DataError

CHANGING = ".changing.json"  # there while files change places: their names
BUILT = "built.json"  # marks a folder of `mempo world build` or `mempo sft train`
REMEDY = "choose another folder to write to, or move it away"


@contextmanager
def replaced(out: Path, inputs: Sequence[Path] = ()) -> Iterator[Path]:
    """Yields an empty folder; at the end its files move to `out`, where the manifest and what it lists are removed before.

    Rows for SFT that were made from the earlier files go with them. An error in between leaves `out` as it was. The
    manifest moves last: a folder without one is unfinished.

    Raises:
        DataError: an input is among the files of `out` that would be removed or overwritten, or one of these is not
            as `mempo data` wrote it.
    """
    ours = _own_files(out)
    _check_apart(out, inputs, ours)
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(
        prefix=".unfinished-", dir=out
    ) as name:  # inside: a file moves within one file system
        scratch = Path(name)
        yield scratch
        files = sorted(scratch.iterdir(), key=lambda path: path.name == NAME)
        names = [path.name for path in files]
        _check_apart(out, inputs, names)
        for foreign in sorted(set(names) - ours):
            if (out / foreign).exists():
                raise DataError(f"{out / foreign} was not written by `mempo data`: {REMEDY}")
        (out / CHANGING).write_text(json.dumps(sorted(ours.union(names))), encoding="utf-8")
        for old in sorted(ours, key=lambda name: name != NAME):
            (out / old).unlink(missing_ok=True)
        for path in files:
            path.replace(out / path.name)
        (out / CHANGING).unlink()


def _own_files(out: Path) -> set[str]:
    """Names of the files in `out` that may be removed."""
    if (out / BUILT).exists():
        raise DataError(f"{out} is a folder of `mempo world build` or `mempo sft train`: {REMEDY}")
    if (out / CHANGING).is_file():  # an earlier command was killed while they changed places
        return set(json.loads((out / CHANGING).read_text(encoding="utf-8")))
    try:
        listed = listed_outputs(out)
    except ValueError as error:
        raise DataError(f"{error}: {REMEDY}") from error
    changed = [name for name in changed_outputs(out) if (out / name).exists()]
    if changed:
        raise DataError(f"{out / changed[0]} was changed after `mempo data` wrote it: {REMEDY}")
    derived = derived_files(out)
    if (out / SFT_ROWS).exists() and not derived:
        raise DataError(
            f"{out / SFT_ROWS} would stand beside rows that it was not made from, and is not as `mempo sft oracle` "
            f"wrote it: {REMEDY}"
        )
    return {*derived, *([] if listed is None else [NAME, *listed])}


def _check_apart(out: Path, inputs: Sequence[Path], names: Collection[str]) -> None:
    for path in inputs:
        if path.name in names and path.resolve().parent == out.resolve():
            raise DataError(f"{path} would be removed or overwritten: choose another folder to write to")
