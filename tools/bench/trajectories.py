"""Random trajectories of a given shape, for benchmarks that only care about sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mempo.probe import Probe
from mempo.trajectory import Action, MemoryStatus, StopReason, Task, Trajectory, Turn

# Around the answer: `<think>…</think><answer>` before it and `</answer>` after it are about this long.
FRAME = (20, 3)


@dataclass(frozen=True)
class Shape:
    """Sizes in tokens; a turn's are the memory, what else is written, and the observation together."""

    turns: int
    turn: int = 600
    memory: int = 100
    answer: int = 30
    prompt: int = 200
    generation_prompt: int = 3


def random_trajectory(shape: Shape, vocabulary: int, random: np.random.Generator) -> Trajectory:
    """A trajectory in history mode, of random tokens: half of a turn is written, the other half an observation."""

    def ids(count: int) -> list[int]:
        return list(map(int, random.integers(0, vocabulary, count)))

    first, opening = ids(shape.prompt), ids(shape.generation_prompt)
    written = max(shape.memory + 1, shape.turn // 2)
    turns: list[Turn] = []
    history = list(first)
    for index in range(shape.turns):
        response = ids(written)
        last = index == shape.turns - 1
        observation = [] if last else ids(shape.turn - written - shape.generation_prompt)
        turns.append(
            Turn(
                prompt_ids=history + opening,
                prefix_ids=[],
                response_ids=response,
                logprobs=[0.0] * written,
                memory_span=(0, shape.memory),
                memory_status=MemoryStatus.CLOSED,
                memory_text="",
                thought=None,
                action=Action("answer" if last else "search", ""),
                observation_ids=observation,
            )
        )
        history = history + opening + response + observation
    task = Task(id="random", question="random tokens")
    return Trajectory(task, turns, StopReason.ANSWERED, first, opening)


def random_probes(
    trajectory: Trajectory, answer: int, vocabulary: int, random: np.random.Generator
) -> list[Probe]:
    """The memory and the history of every turn from the second on, each with the same random answer."""
    before, after = FRAME
    text = list(map(int, random.integers(0, vocabulary, before + answer + after)))
    mask = [0] * before + [1] * answer + [0] * after
    probes = []
    for index in range(1, len(trajectory.turns)):
        memory = trajectory.memory_context(index)
        assert memory is not None
        probes += [Probe(memory, text, mask), Probe(trajectory.full_context(index), text, mask)]
    return probes
