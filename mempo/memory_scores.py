"""From a trajectory to its probes, and from their log-probs to one memory reward per turn.

    R_mem(t) = P(answer | question, memory_t) − P(answer | reference)

The reference is the whole history before turn t (`history`, MemPO) or the memory before it (`previous_memory`, `gain`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from mempo.likelihood import RULES, pair_probability
from mempo.probe import Probe, ProbeFormat, ProbeText, attach, closed_memory, probe_text, stated
from mempo.task import Reference
from mempo.tokens import ChatTokens
from mempo.trajectory import MemoryStatus, Trajectory

ALIASES = ("first", "best")
REFERENCES = ("history", "previous_memory")
STATUSES = ("first", "missing", "unclosed", "too_long", "no_signal", "scored")


@dataclass(frozen=True)
class MemorySettings:
    """How memories are scored; the names are those of the `memory.*` config.

    Attributes:
        likelihood: rule of `mempo.likelihood`.
        threshold_p: answer tokens below this probability may be left out.
        aliases: `first`, or `best`: the alias with the largest max(P_memory, P_reference) over all its tokens, whatever
            the rule, for each objective; the same on both sides. The rule is then applied to the winners.
        reference: `history` or `previous_memory`.
        keep_leading_newline: start the probe with a newline also after a generation prompt, which ends in one, as
            published. After a memory in tags there is one newline in any case.
        max_positions: longest sequence the model takes; a longer probe is `too_long`.
    """

    likelihood: str = "either"
    threshold_p: float = 0.5
    aliases: str = "first"
    reference: str = "history"
    keep_leading_newline: bool = False
    max_positions: int = 32768

    def __post_init__(self) -> None:
        for name, known in (
            ("likelihood", RULES),
            ("aliases", ALIASES),
            ("reference", REFERENCES),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"memory.{name} is {getattr(self, name)!r}; known are {', '.join(known)}")
        if not 0 < self.threshold_p < 1:
            raise ValueError(f"memory.threshold_p is {self.threshold_p}, it must lie between 0 and 1")


@dataclass(frozen=True)
class TurnScore:
    """One turn's memory: its status, and, where scored, both probabilities and their difference."""

    turn: int  # 0-based
    status: str  # one of STATUSES
    p_memory: float = 0.0
    p_reference: float = 0.0
    kept: int = 0

    @property
    def reward(self) -> float:
        return self.p_memory - self.p_reference


@dataclass
class _Candidate:
    """One wording of one objective (or of the whole answer), probed on both sides."""

    objective: int
    memory: int  # index into the plan's probes
    reference: int


@dataclass
class MemoryPlan:
    """The probes of one trajectory, and which turn asked for which."""

    name: str
    settings: MemorySettings
    probes: list[Probe] = field(default_factory=list)
    statuses: dict[int, str] = field(default_factory=dict)
    candidates: dict[int, list[_Candidate]] = field(default_factory=dict)

    def scores(self, logprobs: Sequence[torch.Tensor]) -> list[TurnScore]:
        """One score per turn that was asked for a memory, from the log-probs of `probes`, in order.

        Raises:
            ValueError: for a NaN or infinite log-prob, naming trajectory and turn.
        """
        if len(logprobs) != len(self.probes):
            raise ValueError(f"trajectory {self.name}: {len(logprobs)} scores for {len(self.probes)} probes")
        return [
            self._score(turn, logprobs) if status == "scored" else TurnScore(turn, status)
            for turn, status in sorted(self.statuses.items())
        ]

    def _score(self, turn: int, logprobs: Sequence[torch.Tensor]) -> TurnScore:
        chosen: dict[int, tuple[float, torch.Tensor, torch.Tensor]] = {}
        for candidate in self.candidates[turn]:
            memory, reference = logprobs[candidate.memory], logprobs[candidate.reference]
            for side, values in (("memory", memory), ("reference", reference)):
                if not torch.isfinite(values).all():
                    raise ValueError(
                        f"trajectory {self.name}, turn {turn + 1}: a log-prob of the answer given the {side} is "
                        f"{values.tolist()}: the policy's weights or the scorer are broken"
                    )
            # Without a threshold: it would rank an alias by its easiest piece, or by nothing at all.
            whole = pair_probability(memory, reference, "all")
            assert whole is not None
            rank = max(whole.p_memory, whole.p_reference)
            if candidate.objective not in chosen or rank > chosen[candidate.objective][0]:
                chosen[candidate.objective] = (rank, memory, reference)
        parts = [chosen[objective] for objective in sorted(chosen)]
        pair = pair_probability(
            torch.cat([memory for _, memory, _ in parts]),
            torch.cat([reference for _, _, reference in parts]),
            self.settings.likelihood,
            self.settings.threshold_p,
        )
        if pair is None:
            return TurnScore(turn, "no_signal")
        return TurnScore(turn, "scored", pair.p_memory, pair.p_reference, pair.kept)


def plan_probes(
    trajectory: Trajectory,
    reference: Reference,
    tokens: ChatTokens,
    form: ProbeFormat,
    settings: MemorySettings,
    name: str | None = None,
) -> MemoryPlan:
    """Lays out every probe of a trajectory; `name` is what errors call it (default: the task's id)."""
    plan = MemoryPlan(name or repr(trajectory.task.id), settings)
    texts = _wordings(tokens, form, reference, settings.aliases)
    history = settings.reference == "history"
    frame = trajectory.memory_frame
    previous = trajectory.around_memory(frame.empty_ids if frame else tokens.encode_own("<mem>\n</mem>\n"))
    # In a frame all contexts end in a generation prompt, elsewhere the history's alone.
    keep = settings.keep_leading_newline
    keeps = (keep and frame is not None, keep and (history or frame is not None))
    for index, turn in enumerate(trajectory.turns):
        if turn.memory_status is MemoryStatus.NONE:
            continue
        memory = trajectory.memory_context(index)
        if memory is not None and frame is None:
            memory = closed_memory(tokens, memory)
        if history and index == 0:
            plan.statuses[index] = "first"
        elif memory is None:
            missing = turn.memory_status is MemoryStatus.MISSING
            plan.statuses[index] = "missing" if missing else "unclosed"
        else:
            against = trajectory.full_context(index) if history else previous
            plan.statuses[index] = _add(plan, index, (memory, against), keeps, texts, tokens)
        if memory is not None:
            previous = memory
    return plan


def _wordings(
    tokens: ChatTokens, form: ProbeFormat, reference: Reference, aliases: str
) -> list[tuple[int, int | None, ProbeText]]:
    """(objective to choose for, objective to mask or None for all, probe text).

    With `best` and several objectives, each alias is probed in its place among the first aliases of the others.
    """
    answers = [list(dict.fromkeys(map(stated, names))) for names in reference.answers]
    firsts = [names[0] for names in answers]
    if aliases == "first":
        return [(0, None, probe_text(tokens, form, firsts))]
    wordings: list[tuple[int, int | None, ProbeText]] = []
    for objective, names in enumerate(answers):
        for alias in names:
            answer = [*firsts[:objective], alias, *firsts[objective + 1 :]]
            wordings.append((objective, objective, probe_text(tokens, form, answer)))
    return wordings


def _add(
    plan: MemoryPlan,
    turn: int,
    contexts: tuple[list[int], list[int]],
    keep_newlines: tuple[bool, bool],
    texts: list[tuple[int, int | None, ProbeText]],
    tokens: ChatTokens,
) -> str:
    settings = plan.settings
    pairs = [
        (
            objective,
            [
                attach(tokens, context, text, masked, keep)
                for context, keep in zip(contexts, keep_newlines, strict=True)
            ],
        )
        for objective, masked, text in texts
    ]
    if any(len(probe) > settings.max_positions for _, pair in pairs for probe in pair):
        return "too_long"
    plan.candidates[turn] = []
    for objective, pair in pairs:
        plan.candidates[turn].append(_Candidate(objective, len(plan.probes), len(plan.probes) + 1))
        plan.probes += pair
    return "scored"
