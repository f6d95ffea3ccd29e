"""What an index folder holds: `manifest.json`, written last, so that a folder with one is complete."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NAME = "manifest.json"
FORMAT = 2  # 2: every document has an address, not only those with a url


class IndexFolderError(ValueError):
    """An index folder cannot be used; the message names it and says what to do."""


@dataclass(frozen=True)
class Manifest:
    """Counts, hashes and settings of an index.

    Attributes:
        kind: bm25, dense or hybrid.
        documents: passages that are indexed.
        malformed: corpus lines that were left out.
        problems: what is wrong with the first of them, by line number.
        corpus: name, bytes and SHA-256 of the corpus file.
        settings: whatever else decided what the index holds.
        files: name below the folder → bytes.
    """

    kind: str
    documents: int
    malformed: int
    problems: list[str]
    corpus: dict[str, Any]
    settings: dict[str, Any]
    files: dict[str, int]
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Writes it into the folder."""
        (folder / NAME).write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a complete folder, its files checked by their sizes.

        Raises:
            IndexFolderError: no index, one of another version, or files that are missing or cut short.
        """
        if folder.is_file():
            raise IndexFolderError(
                f"{folder} is a file; an index is the folder that `mempo search build --corpus FILE --out FOLDER` writes "
                "(a small corpus file can be served as it is: `mempo search serve --corpus FILE`)"
            )
        try:
            content = json.loads((folder / NAME).read_text())
            manifest = cls(**content)
        except FileNotFoundError as error:
            if folder.with_name(f"{folder.name}.partial").is_dir():
                what = "is not finished: run the same `mempo search build` again, it goes on"
            else:
                what = f"holds no index (no {NAME}): make one with `mempo search build --corpus FILE --out {folder}`"
            raise IndexFolderError(f"{folder} {what}") from error
        except OSError as error:
            raise IndexFolderError(f"{folder / NAME} cannot be read: {error.strerror or error}") from error
        except (ValueError, TypeError) as error:
            raise IndexFolderError(f"{folder / NAME} is damaged ({error}); build the index again") from error
        if manifest.format != FORMAT:
            raise IndexFolderError(
                f"{folder} has format {manifest.format}, this version reads {FORMAT}; build the index again"
            )
        for name, size in manifest.files.items():
            found = (folder / name).stat().st_size if (folder / name).is_file() else None
            if found != size:
                what = "is missing" if found is None else f"has {found} bytes instead of {size}"
                raise IndexFolderError(f"{folder / name} {what}; build the index again")
        return manifest


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of every file below a folder, by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != NAME)
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}
