"""Many sequences as one tree: what they begin with in common is laid out, and computed, once.

The longest sequence is the trunk (the history before a trajectory's last turn); every other leaves the tree where its
tokens first differ. Laid out one after another, the parts are one packed sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mempo.probe import Probe

Ids = npt.NDArray[np.int64]
Interval = tuple[int, int]


@dataclass(frozen=True)
class Segment:
    """Consecutive rows of the packed sequence.

    Attributes:
        rows: half-open interval; each row attends to those of `before` and, causally, to the rows of its own segment.
        before: half-open intervals of the rows that precede the segment in its sequences, in their order.
    """

    rows: Interval
    before: tuple[Interval, ...]

    def __len__(self) -> int:
        return self.rows[1] - self.rows[0]

    @property
    def depth(self) -> int:
        """Tokens that precede the segment in its sequences."""
        return sum(end - start for start, end in self.before)


@dataclass(frozen=True)
class Tree:
    """A packed sequence of N rows, and where it predicts the answer tokens of its probes.

    Attributes:
        token_ids: [N].
        position_ids: [N]; a segment goes on counting where it left the tree.
        segments: tile the rows, in order.
        predictors: [A] the row whose logits predict each answer token; rows may repeat.
        targets: [A] the answer tokens.
        answers: one half-open interval of the A per probe, in the order in which the probes were given.
    """

    token_ids: Ids
    position_ids: Ids
    segments: tuple[Segment, ...]
    predictors: Ids
    targets: Ids
    answers: tuple[Interval, ...]

    def __len__(self) -> int:
        return len(self.token_ids)


def build_tree(probes: Sequence[Probe]) -> Tree:
    """The tree of the probes' sequences, whichever trajectories they are of.

    Raises:
        ValueError: without probes, or if nothing precedes an answer's first token.
    """
    if not probes:
        raise ValueError("tree: there is no probe to lay out")
    sequences = [np.array([*probe.context_ids, *probe.probe_ids], dtype=np.int64) for probe in probes]
    growing = _Growing()
    # The longest first: it becomes the trunk, and no segment ever has to be divided.
    for index in sorted(range(len(probes)), key=lambda index: -len(sequences[index])):
        growing.add(sequences[index])
    predictors, targets, answers = [], [], []
    count = 0
    for probe, sequence in zip(probes, sequences, strict=True):
        asked = len(probe.context_ids) + np.flatnonzero(probe.answer_mask)
        if asked[0] == 0:
            raise ValueError("tree: the first token of a sequence is an answer token, which nothing predicts")
        predictors.append(growing.rows_of(sequence)[asked - 1])
        targets.append(sequence[asked])
        answers.append((count, count + len(asked)))
        count += len(asked)
    return growing.tree(np.concatenate(predictors), np.concatenate(targets), tuple(answers))


@dataclass
class _Node:
    """A segment under construction; children are found by the offset at which they leave and their first token."""

    segment: Segment
    depth: int
    tokens: Ids
    children: dict[tuple[int, int], _Node] = field(default_factory=dict)


class _Growing:
    """A radix tree that is never divided: a child may leave its parent anywhere, also in the middle."""

    def __init__(self) -> None:
        self._root = _Node(Segment((0, 0), ()), 0, np.empty(0, np.int64))
        self._nodes: list[_Node] = []
        self._size = 0

    def add(self, sequence: Ids) -> None:
        node, leave, before = self._follow(sequence)
        depth = node.depth + leave
        if depth == len(sequence):
            return
        rows = (self._size, self._size + len(sequence) - depth)
        child = _Node(Segment(rows, tuple(before)), depth, sequence[depth:])
        node.children[leave, int(sequence[depth])] = child
        self._nodes.append(child)
        self._size = rows[1]

    def rows_of(self, sequence: Ids) -> Ids:
        """[len(sequence)] the row of each token of a sequence that was added."""
        _, _, path = self._follow(sequence)
        return np.concatenate([np.arange(*interval) for interval in path])

    def tree(self, predictors: Ids, targets: Ids, answers: tuple[Interval, ...]) -> Tree:
        return Tree(
            token_ids=np.concatenate([node.tokens for node in self._nodes]),
            position_ids=np.concatenate(
                [node.depth + np.arange(len(node.tokens), dtype=np.int64) for node in self._nodes]
            ),
            segments=tuple(node.segment for node in self._nodes),
            predictors=predictors,
            targets=targets,
            answers=answers,
        )

    def _follow(self, sequence: Ids) -> tuple[_Node, int, list[Interval]]:
        """Where a sequence leaves the tree: the last node it shares, how far into it, and the rows up to there."""
        node, path = self._root, list[Interval]()
        while True:
            shared = common_prefix(node.tokens, sequence[node.depth :])
            if shared:
                start = node.segment.rows[0]
                path.append((start, start + shared))
            depth = node.depth + shared
            child = node.children.get((shared, int(sequence[depth]))) if depth < len(sequence) else None
            if child is None:
                return node, shared, path
            node = child


def common_prefix(left: Ids, right: Ids) -> int:
    """How many tokens two sequences begin with in common."""
    size = min(len(left), len(right))
    differ = np.flatnonzero(left[:size] != right[:size])
    return int(differ[0]) if len(differ) else size
