"""Chat rows as token ids with a loss mask, put together exactly as the agent does at rollout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from mempo.tokens import ChatTokens


@dataclass(frozen=True)
class Example:
    """One training sequence; `mask` is 1 on the tokens whose prediction is trained."""

    ids: list[int]
    mask: list[int]


def encode_row(tokens: ChatTokens, row: dict[str, Any]) -> Example:
    """One row of `sft.parquet`. Assistant turns are trained with their end-of-turn token.

    Raises:
        ValueError: the conversation is not [system], user, assistant, tool, assistant, …, assistant.
    """
    messages = list(row["messages"])
    system = messages.pop(0)["content"] if messages and messages[0]["role"] == "system" else None
    roles = [message["role"] for message in messages]
    expected = ["user", "assistant", *["tool", "assistant"] * ((len(roles) - 2) // 2)]
    if roles != expected:
        raise ValueError(
            f"row {row['id']!r}: roles are {roles}; expected user, assistant, then tool and assistant in turn"
        )
    ids = tokens.first_prompt(system, messages[0]["content"])
    mask = [0] * len(ids)
    for index, message in enumerate(messages[1:], 1):
        if message["role"] == "tool":
            part, trained = tokens.observation(message["content"], ended=True), 0
        else:
            ids += tokens.generation_prompt_ids
            mask += [0] * len(tokens.generation_prompt_ids)
            part = [*tokens.encode_own(message["content"]), tokens.turn_end_id]
            trained = int(not row["train_last_only"] or index == len(messages) - 1)
        ids += part
        mask += [trained] * len(part)
    return Example(ids, mask)


def batches(examples: Sequence[Example], max_tokens: int, rng: Random) -> list[list[Example]]:
    """Batches of at most `max_tokens` padded tokens (at least one example), of similar lengths, in random order."""
    order = list(examples)
    rng.shuffle(order)
    found: list[list[Example]] = []
    for start in range(0, len(order), 512):
        chunk = sorted(order[start : start + 512], key=lambda example: len(example.ids))
        made = list(_fill(chunk, max_tokens))
        rng.shuffle(made)
        found += made
    return found


def _fill(examples: Iterable[Example], max_tokens: int) -> Iterable[list[Example]]:
    batch: list[Example] = []
    for example in examples:
        if batch and (len(batch) + 1) * len(example.ids) > max_tokens:
            yield batch
            batch = []
        batch.append(example)
    if batch:
        yield batch
