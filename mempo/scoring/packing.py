"""Which trajectories share a forward, and which rank runs it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mempo.probe import Probe
from mempo.scoring.tree import Segment, Tree, build_tree


@dataclass(frozen=True)
class Pack:
    """One forward: a tree, and the trajectories whose probes it holds, one after another (none in a filler)."""

    tree: Tree
    members: tuple[int, ...]


@dataclass(frozen=True)
class Schedule:
    """rank → forwards in order; every rank has the same number of them, as collective operations ask for."""

    ranks: list[list[Pack]]

    @property
    def trees(self) -> list[list[Tree]]:
        """rank → trees in order: what the ranks have to be sent."""
        return [[pack.tree for pack in packs] for packs in self.ranks]

    @property
    def tokens(self) -> int:
        """Rows of all trees, fillers not counted."""
        return sum(len(pack.tree) for packs in self.ranks for pack in packs if pack.members)

    def collect(
        self, probes: Sequence[Sequence[Probe]], logprobs: Sequence[Sequence[torch.Tensor]]
    ) -> list[list[torch.Tensor]]:
        """One tensor per probe, from what the ranks answered for `trees` ([A] per tree)."""
        found: list[list[torch.Tensor]] = [[] for _ in probes]
        for packs, answers in zip(self.ranks, logprobs, strict=True):
            for pack, values in zip(packs, answers, strict=True):
                parts = iter(pack.tree.answers)
                for member in pack.members:
                    found[member] = [values[slice(*next(parts))] for _ in probes[member]]
        return found


def schedule(probes: Sequence[Sequence[Probe]], budget: int, ranks: int = 1) -> Schedule:
    """Packs trajectories into forwards of at most `budget` tokens and deals these out, balanced by tokens.

    Neighbours stay together, so that rollouts of one question share what they share. A trajectory over the budget runs
    alone; one without probes nowhere.
    """
    asking = [index for index, asked in enumerate(probes) if asked]
    alone = [build_tree(probes[index]) for index in asking]
    # Alone, a trajectory's tree is at least as large as its part of a common one: the budget holds.
    packs = []
    for places in divide([len(tree) for tree in alone], budget, ranks):
        members = tuple(asking[place] for place in places)
        shared = [probe for member in members for probe in probes[member]]
        packs.append(Pack(alone[places[0]] if len(places) == 1 else build_tree(shared), members))
    dealt = deal([len(pack.tree) for pack in packs], ranks)
    forwards = max((len(places) for places in dealt), default=0)
    return Schedule(
        [
            [packs[place] for place in places] + [Pack(FILLER, ())] * (forwards - len(places))
            for places in dealt
        ]
    )


def divide(sizes: Sequence[int], budget: int, ranks: int) -> list[list[int]]:
    """Consecutive items in parts of about equal size, as many parts as `ranks` need to stay within `budget` each."""
    total = sum(sizes)
    count = ranks * math.ceil(total / (ranks * budget))
    shares: list[list[int]] = [[] for _ in range(count)]
    seen = 0
    for place, size in enumerate(sizes):
        shares[int((seen + size / 2) * count / total)].append(place)
        seen += size
    return [part for share in shares for part in _within(share, sizes, budget)]


def _within(places: Sequence[int], sizes: Sequence[int], budget: int) -> list[list[int]]:
    parts: list[list[int]] = []
    room = 0
    for place in places:
        if not parts or sizes[place] > room:
            parts.append([])
            room = budget
        parts[-1].append(place)
        room -= sizes[place]
    return parts


def deal(sizes: Sequence[int], ranks: int) -> list[list[int]]:
    """rank → items: the largest first, each to the rank with the least so far."""
    dealt: list[list[int]] = [[] for _ in range(ranks)]
    loads = [(0, rank) for rank in range(ranks)]
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        load, rank = heapq.heappop(loads)
        dealt[rank].append(place)
        heapq.heappush(loads, (load + sizes[place], rank))
    return dealt


FILLER = Tree(
    token_ids=np.zeros(1, np.int64),
    position_ids=np.zeros(1, np.int64),
    segments=(Segment((0, 1), ()),),
    predictors=np.zeros(1, np.int64),
    targets=np.zeros(1, np.int64),
    answers=(),
)
