"""A release on its way to the Hugging Face hub: what would be sent, and sending it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.hashing import file_sha256
from tools.release.check import release_problems
from tools.release.errors import ReleaseError
from tools.release.manifest import HUB_FILES, NAME, read_manifest
from tools.release.scan import leaks

if TYPE_CHECKING:
    from huggingface_hub import HfApi

TOKEN_VARIABLE = "HF_TOKEN"
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
LISTED = 5


@dataclass(frozen=True)
class Upload:
    """What a push sends.

    Attributes:
        sizes: bytes by name, of all files.
        kind: `model` or `dataset`.
    """

    folder: Path
    repository: str
    kind: str
    private: bool
    sizes: dict[str, int]

    def text(self) -> str:
        """What would happen, as lines."""
        width = max(map(len, self.sizes))
        lines = [f"  {name:<{width}}  {size:>15,} bytes" for name, size in self.sizes.items()]
        seen = "private" if self.private else "public"
        total = f"{len(self.sizes)} files, {sum(self.sizes.values()):,} bytes"
        return "\n".join([f"{self.kind} {self.repository} ({seen}): {total}", *lines])


def plan_upload(folder: Path, repository: str, *, private: bool) -> Upload:
    """What a push of a release would send; asks nobody.

    Raises:
        ReleaseError: the name is none, a file holds a secret or a local path, or the folder is not as released.
    """
    if not REPOSITORY.fullmatch(repository):
        raise ReleaseError(f"--push is {repository!r}; write ORG/NAME")
    found = leaks(folder, [folder.resolve().parent, Path.cwd()])
    if found:
        raise ReleaseError(
            "nothing is sent: "
            + "; ".join(found)
            + ". Take it out of what the release is made from, and make it anew"
        )
    problems = release_problems(folder)
    if problems:
        raise ReleaseError(f"nothing is sent, {folder} is not as it was released: " + "; ".join(problems))
    manifest = read_manifest(folder)
    names = sorted([*(entry["name"] for entry in manifest["files"]), NAME])
    return Upload(
        folder,
        repository,
        str(manifest["kind"]),
        private,
        {name: (folder / name).stat().st_size for name in names},
    )


def send(upload: Upload) -> str:
    """Uploads the files, and compares what the hub then holds; returns the repository's address.

    Interrupted, it may be repeated: what the hub has already is not sent again.

    Raises:
        ReleaseError: there is no token, the repository holds files of something else, or the upload failed.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise ReleaseError(f"set {TOKEN_VARIABLE} to a token that may write to {upload.repository}")
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)
    try:
        url = api.create_repo(upload.repository, repo_type=upload.kind, private=upload.private, exist_ok=True)
        foreign = sorted(set(remote_files(api, upload)) - set(upload.sizes) - set(HUB_FILES))
        if foreign:
            raise ReleaseError(
                f"{upload.repository} holds {', '.join(foreign[:LISTED])}, which this release does not have: choose an "
                "empty repository, or delete them there"
            )
        api.upload_folder(
            repo_id=upload.repository,
            repo_type=upload.kind,
            folder_path=upload.folder,
            allow_patterns=list(upload.sizes),
            commit_message="Release",
        )
        held = remote_files(api, upload)
    except (HfHubHTTPError, OSError, ValueError, RuntimeError) as error:
        if isinstance(error, ReleaseError):
            raise
        raise ReleaseError(
            f"the upload did not finish ({error}); the same command goes on with it"
        ) from error
    odd = [name for name in upload.sizes if not _is_held(upload.folder / name, held.get(name))]
    if odd:
        raise ReleaseError(f"{upload.repository} holds no or another {', '.join(odd[:LISTED])}; push again")
    return str(url)


def remote_files(api: HfApi, upload: Upload) -> dict[str, Mapping[str, Any]]:
    """By name what tells a file's content: its size, git's hash, and SHA-256 where it is a large one."""
    from huggingface_hub.hf_api import RepoFile

    entries = api.list_repo_tree(upload.repository, repo_type=upload.kind, recursive=True)
    return {
        entry.path: {
            "size": entry.size,
            "git": entry.blob_id,
            "sha256": entry.lfs.sha256 if entry.lfs else None,
        }
        for entry in entries
        if isinstance(entry, RepoFile)
    }


def _is_held(path: Path, held: Mapping[str, Any] | None) -> bool:
    if held is None or held["size"] != path.stat().st_size:
        return False
    if held["sha256"]:
        return bool(held["sha256"] == file_sha256(path))
    from huggingface_hub.utils.sha import git_hash

    return bool(held["git"] == git_hash(path.read_bytes()))
