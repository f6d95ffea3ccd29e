"""The token ids that end a model's turn: one set, for training, evaluation and chat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GENERATION = "generation_config.json"
MODEL = "config.json"


def stop_ids(tokenizer: Any, turn_end_id: int, model: str | Path | None = None) -> list[int]:
    """Every id at which a turn has ended, sorted.

    The union of the chat template's end of a turn, the tokenizer's end of sequence, and the ends that the model folder
    names. An engine stops at all of the last (vLLM does, whatever a request says), so a set without them would take such a
    turn for a torn one.

    Args:
        turn_end_id: with which the chat template closes an assistant turn.
        model: folder of the model that writes; where it is none, the folder that the tokenizer was loaded from stands in.

    Raises:
        ValueError: the folder's file is not JSON, or names something else than ids; names the file.
    """
    found = {turn_end_id}
    if tokenizer.eos_token_id is not None:
        found.add(int(tokenizer.eos_token_id))
    for folder in (model, getattr(tokenizer, "name_or_path", None)):
        if folder and Path(folder).is_dir():
            return sorted(found | model_end_ids(Path(folder)))
    return sorted(found)


def model_end_ids(folder: Path) -> set[int]:
    """`eos_token_id` of generation_config.json, or of config.json where there is no such file: what engines go by.

    Raises:
        ValueError: it is neither an id nor a list of ids, or the file is not JSON.
    """
    path = folder / (GENERATION if (folder / GENERATION).is_file() else MODEL)
    if not path.is_file():
        return set()  # a folder of a tokenizer alone
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error})") from error
    told = content.get("eos_token_id") if isinstance(content, dict) else None
    ids = [] if told is None else told if isinstance(told, list) else [told]
    if not all(type(each) is int and each >= 0 for each in ids):
        raise ValueError(f"{path}: eos_token_id is {told!r}: write a token id or a list of them")
    return set(ids)
