"""The final advantage of every token that a trajectory wrote, turn by turn, for people to look at."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

import torch

from mempo.tokens import ChatTokens
from mempo.trajectory import Trajectory


def token_advantages(
    trajectory: Trajectory, rows: Sequence[torch.Tensor], tokens: ChatTokens
) -> list[dict[str, Any]]:
    """One entry per turn: `text` and `advantage` of each token of its forced prefix and response.

    Args:
        rows: [L] advantages of each training row's response, in the order of `Trajectory.rows`.

    Raises:
        ValueError: if they are not the rows of this trajectory.
    """
    return [
        {
            "text": _texts(turn.written_ids, tokens),
            "advantage": [round(value, 6) for value in values.tolist()],
        }
        for turn, values in zip(trajectory.turns, _by_turn(trajectory, rows), strict=True)
    ]


def _by_turn(trajectory: Trajectory, rows: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    written = [len(turn.written_ids) for turn in trajectory.turns]
    if not trajectory.context.append_only:
        parts = list(rows)
    else:
        parts, start = [], 0
        for index, length in enumerate(written):
            if index:  # what stands between two turns in the joined row
                start += len(trajectory.turns[index - 1].observation_ids) + len(
                    trajectory.generation_prompt_ids
                )
            parts += [row[start : start + length] for row in rows]
            start += length
    if [len(part) for part in parts] != written:
        raise ValueError(
            f"trajectory {trajectory.task.id!r}: advantages of {[len(part) for part in parts]} tokens for turns of {written}"
        )
    return parts


def _texts(ids: Sequence[int], tokens: ChatTokens) -> list[str]:
    # A character may be spread over several tokens; its text stands with the last of them.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return [decoder.decode(tokens.pieces.token_bytes(token)) for token in ids]
