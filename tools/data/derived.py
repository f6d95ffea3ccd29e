"""What other commands write into a data folder from its rows: it belongs to them, and goes when they go."""

from __future__ import annotations

from pathlib import Path

SFT_ROWS, SFT_NOTE = (
    "sft.parquet",
    "sft.json",
)  # of `mempo sft oracle`; the note stands beside rows that a run made


def derived_files(folder: Path) -> list[str]:
    """Names of the files in a folder that were made from its rows and not changed since."""
    from tools.sft.rows import is_own

    if not (folder / SFT_ROWS).is_file() or not is_own(folder / SFT_ROWS):
        return []
    return [name for name in (SFT_ROWS, SFT_NOTE) if (folder / name).is_file()]
