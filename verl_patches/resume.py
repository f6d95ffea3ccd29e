"""Where a run goes on: at the newest checkpoint that is whole, and never silently at an older one or at none.

verl writes a checkpoint file by file and its pointer in place, so a kill or a full disk leaves either of them half
written. It then starts from scratch, or with the questions from the beginning, and says so in a log line at most.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from verl_patches.failures import RunFailed

TRACKER = "latest_checkpointed_iteration.txt"
STEP = "global_step_"
ACTOR, HF_MODEL = "actor", ("actor", "huggingface")
QUEUE = "transfer_queue"  # of the asynchronous modes; verl gives the folder its name when it is complete
_LOADER = "data.pt"
_WORLD = "fsdp_config.json"
LISTED = 3
# verl's word for what a checkpoint holds → how the file of one rank begins.
_SHARDS = {"model": "model", "optimizer": "optim", "extra": "extra_state"}


@dataclass(frozen=True)
class ResumePoint:
    """The step to go on from (None: nothing was ever completed), and what a user must hear about it."""

    step: int | None
    notes: list[str] = field(default_factory=list)


def resume_point(folder: Path, contents: Collection[str] = ("model",), *, queue: bool = False) -> ResumePoint:
    """The checkpoint that the pointer names if it is whole, else the newest whole one. Changes nothing.

    Args:
        folder: of the checkpoints.
        contents: what a resumed run loads (`checkpoint.load_contents`).
        queue: whether the state of the TransferQueue belongs to it (the asynchronous modes).

    Raises:
        RunFailed: a checkpoint was completed once, and none is whole now.
    """
    named, steps = _named(folder), _steps(folder)
    flaws = {step: flaw(folder / f"{STEP}{step}", contents, queue=queue) for step in steps}
    if named is not None and named not in flaws:
        flaws[named] = "it is gone"
    whole = [step for step, problem in flaws.items() if problem is None]
    best = named if named in whole else max(whole, default=None)
    left = {step: problem for step, problem in flaws.items() if best is None or step > best}
    listed = "; ".join(
        f"step {step} is left aside: {problem or f'{TRACKER} names step {named}'}"
        for step, problem in sorted(left.items())[-LISTED:]
    )
    if best is not None:
        pointer = "" if named is not None else f"{TRACKER} names no step"
        why = "; ".join(each for each in (listed, pointer) if each)
        return ResumePoint(best, [f"going on from the checkpoint of step {best} ({why})"] if why else [])
    if (folder / TRACKER).exists():
        raise RunFailed(
            f"no checkpoint in {folder} is whole ({listed or 'there is none'}): put one back, or begin anew under another "
            "run.name; nothing was changed"
        )
    return ResumePoint(
        None, [f"starting from scratch: no checkpoint was completed ({listed})"] if listed else []
    )


def repair_tracker(
    folder: Path, contents: Collection[str] = ("model",), *, queue: bool = False
) -> ResumePoint:
    """As `resume_point`, and makes verl's pointer name that step.

    Raises:
        RunFailed: as there.
    """
    point = resume_point(folder, contents, queue=queue)
    if point.step is not None and _named(folder) != point.step:
        scratch = (folder / TRACKER).with_suffix(".tmp")
        scratch.write_text(str(point.step))
        os.replace(scratch, folder / TRACKER)
    return point


def newest_whole(folder: Path) -> int | None:
    """The newest step whose checkpoint is whole, whatever the pointer says."""
    return max((step for step in _steps(folder) if flaw(folder / f"{STEP}{step}") is None), default=None)


def flaw(folder: Path, contents: Collection[str] = ("model",), *, queue: bool = False) -> str | None:
    """What keeps a `global_step_N` from being resumed from; None if all is there.

    Files of every rank count: those of `contents`, and those that any rank has. A file is whole if it ends as its
    format says; that finds what was cut short, not a changed byte.
    """
    if not folder.is_dir():
        return "it is gone"
    actor = folder / ACTOR
    try:
        ranks = int(json.loads((actor / _WORLD).read_text(encoding="utf-8"))["world_size"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"{ACTOR}/{_WORLD} is missing or damaged"
    torn = next((path for path in _files(folder, ranks, contents) if not _is_zip(path)), None)
    if torn is not None:
        return f"{torn.relative_to(folder)} {'is cut short' if torn.exists() else 'is missing'}"
    if problem := _model_flaw(folder.joinpath(*HF_MODEL), needed="hf_model" in contents):
        return f"{'/'.join(HF_MODEL)}/{problem}"
    if queue and not (folder / QUEUE).is_dir():
        return f"{QUEUE}/ is missing"
    return None


def _files(folder: Path, ranks: int, contents: Collection[str]) -> Iterator[Path]:
    """Those that torch wrote, in the order in which it did."""
    actor = folder / ACTOR
    for kind, start in _SHARDS.items():
        if kind in contents or kind == "model" or any(actor.glob(f"{start}_world_size_*")):
            yield from (actor / f"{start}_world_size_{ranks}_rank_{rank}.pt" for rank in range(ranks))
    yield folder / _LOADER


def _is_zip(path: Path) -> bool:
    """Whether a file that torch saved reaches its end, where a zip has its table of contents."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def _model_flaw(folder: Path, *, needed: bool) -> str | None:
    from safetensors import SafetensorError, safe_open

    weights = sorted(folder.glob("*.safetensors"))
    for path in weights:
        try:
            with safe_open(path, framework="numpy"):
                pass
        except (OSError, SafetensorError):
            return f"{path.name} is cut short"
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            listed = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError):
            return f"{index.name} is damaged"
        missing = sorted(listed - {path.name for path in weights})
        return f"{missing[0]} is missing" if missing else None
    if len(weights) > 1:
        return f"{index.name} is missing"
    return "model.safetensors is missing" if needed and not weights else None


def _named(folder: Path) -> int | None:
    try:
        return int((folder / TRACKER).read_text())
    except (OSError, ValueError):
        return None


def _steps(folder: Path) -> list[int]:
    names = [path.name.removeprefix(STEP) for path in folder.glob(f"{STEP}*") if path.is_dir()]
    return sorted(int(name) for name in names if name.isdecimal())
