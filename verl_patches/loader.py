"""The order of the training questions: a function of the seed and of how many were asked, so that a resumed run goes on.

verl's own loader keeps the state of a torch sampler, whose generator is re-seeded or not depending on where in an epoch
the state was saved; the epoch after a resume then has another order than that of a run without a break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

DRAW = "draw"  # the field of a question that tells its draw


def check_enough(questions: int, batch: int) -> None:
    """verl counts an epoch in whole batches, and divides by their number.

    Raises:
        ValueError: if there is not one.
    """
    if questions < batch:
        raise ValueError(
            f"data.train_files: {questions} questions are fewer than one batch of {batch}: lower data.train_batch_size, or "
            "give more questions"
        )


class SeededLoader:
    """Batches of a map-style data set, reshuffled every epoch from (seed, epoch); the rest of an epoch is dropped.

    Every question carries the number of its draw under `DRAW`: how many were handed out before it since the run began. It is
    told by the same state, so a resumed run goes on counting, and a question that comes again has another number.

    `iter()` goes on where the last iterator was, as verl's trainer expects of a loader that it restored.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        collate: Callable[[list[Any]], Any],
        *,
        seed: int,
        shuffle: bool,
    ) -> None:
        check_enough(len(dataset), batch_size)
        self.dataset, self.batch_size, self.collate = dataset, batch_size, collate
        self.seed, self.shuffle = seed, shuffle
        self._served = 0  # batches handed out since the first epoch

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self.dataset) // self.batch_size

    def __iter__(self) -> Iterator[Any]:
        while True:
            epoch, position = divmod(self._served, len(self))
            order = self.order(epoch)[position * self.batch_size : (position + 1) * self.batch_size]
            first = self._served * self.batch_size
            self._served += 1
            yield self.collate(
                [{**self.dataset[index], DRAW: first + place} for place, index in enumerate(order)]
            )
            if position + 1 == len(self):
                return

    def order(self, epoch: int) -> Sequence[int]:
        """Indices of one epoch, in the order asked."""
        if not self.shuffle:
            return range(len(self.dataset))
        generator = torch.Generator().manual_seed(_mix(self.seed, epoch))
        order: list[int] = torch.randperm(len(self.dataset), generator=generator).tolist()
        return order

    def state_dict(self) -> dict[str, int]:
        return {
            "served": self._served,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "questions": len(self.dataset),
            "shuffle": int(self.shuffle),
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on from a saved state.

        Raises:
            ValueError: if the data, the batch size or the seed are others than in the run that saved it.
        """
        own = self.state_dict()
        changed = [name for name in own if name != "served" and state.get(name) != own[name]]
        if changed:
            raise ValueError(
                "data: the checkpoint was written with another "
                + ", ".join(f"{name} ({state.get(name)}, now {own[name]})" for name in changed)
                + ": start a new run, or set them back"
            )
        self._served = state["served"]


def _mix(seed: int, epoch: int) -> int:
    return (seed * 1_000_003 + epoch) % 2**63
