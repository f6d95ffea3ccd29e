"""A protocol: what an experiment compares and by what rule, written down before its first run."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tools.experiment.errors import ExperimentError
from tools.experiment.outcome import REWARD_AREA, after, outcome_fault

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# What the arms of one seed have in common, unless the protocol lists it under `may_differ`.
SHARED = ("data", "model", "questions", "evaluation")
# Keys that the experiment itself sets for every run.
RESERVED = ("seed", "run.name", "run.dir", "run.path")


@dataclass(frozen=True)
class Protocol:
    """A checked protocol.

    Attributes:
        recipe: of `configs/`, or the path of a YAML file, relative to the protocol's.
        overrides: of every run, in Hydra's syntax, e.g. `trainer.total_training_steps=32`.
        arms: by name, the overrides that make it, after the common ones.
        control: the arm that the others are compared with.
        fewer_seeds: arms that run with some of `seeds` only.
        contexts: of the evaluations that are reported.
        primary, secondary: outcomes (`tools.experiment.outcome`).
        margin: the smallest difference in the primary outcome that matters, in its unit.
        notes: paragraphs for the report's reader.
        may_differ: of `SHARED`, what arms may change.
    """

    name: str
    recipe: str
    arms: dict[str, list[str]]
    control: str
    seeds: list[int]
    primary: str
    margin: float
    overrides: list[str]
    fewer_seeds: dict[str, list[int]]
    contexts: list[str]
    secondary: list[str]
    notes: list[str]
    may_differ: list[str]

    @property
    def record(self) -> dict[str, Any]:
        """As plain JSON types, what was left out filled in."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def sha256(self) -> str:
        """Of the record as JSON with sorted keys and without spaces."""
        text = json.dumps(self.record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def modes(self) -> list[str]:
        """The contexts as keys of summaries: `history`, `window1`."""
        return [mode_name(context) for context in self.contexts]

    def seeds_of(self, arm: str) -> list[int]:
        return self.fewer_seeds.get(arm, self.seeds)

    def runs(self) -> list[tuple[int, str]]:
        """(seed, arm) in the order in which they run: all arms of a seed before the next seed."""
        arms = [self.control, *(arm for arm in self.arms if arm != self.control)]
        return [(seed, arm) for seed in self.seeds for arm in arms if seed in self.seeds_of(arm)]


def mode_name(context: str) -> str:
    """A context mode as a key of summaries. Raises ValueError for what is none."""
    from mempo.trajectory import ContextMode

    return str(ContextMode.parse(context)).replace(":", "")


def read_protocol(path: Path) -> Protocol:
    """Reads and checks a protocol file.

    Raises:
        ExperimentError: it cannot be read, or breaks rules; one line for each.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        # This loader refuses a key that is written twice, which would drop an arm silently.
        raw = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except (OSError, YAMLError, OmegaConfBaseException, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ExperimentError(f"{path}: cannot be read as YAML: {reason}") from error
    if not isinstance(raw, dict):
        raise ExperimentError(f"{path}: a protocol is a mapping; see docs/experiments.md")
    return protocol_of(raw, str(path))


def protocol_of(raw: Mapping[Any, Any], source: str) -> Protocol:
    """A protocol from plain values.

    Raises:
        ExperimentError: with one line for each fault; `source` says where the values come from.
    """
    values, faults = _typed(raw)
    if not faults:
        faults = _broken_rules(values)
    if faults:
        lines = "\n".join(f"  {fault}" for fault in faults)
        raise ExperimentError(f"{source}: {len(faults)} fault(s) in the protocol:\n{lines}")
    return Protocol(**values)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)


def _whole(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(type(item) is int and 0 <= item < 2**31 for item in value)
        and len(set(value)) == len(value)
    )


def _by_name(inner: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, dict)
        and all(isinstance(key, str) and NAME.fullmatch(key) for key in value)
        and all(inner(item) for item in value.values())
    )


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


_SEEDS = "different whole numbers from 0, at least one"
# key: whether a value is one, what it is, and whether it must be given
_KEYS: dict[str, tuple[Callable[[Any], bool], str, bool]] = {
    "name": (
        lambda value: isinstance(value, str) and bool(NAME.fullmatch(value)),
        "letters, digits, dots, dashes and underscores",
        True,
    ),
    "recipe": (_text, "a recipe's name or the path of a YAML file", True),
    "arms": (
        _by_name(_texts),
        "names (text: letters, digits, dots, dashes, underscores), each with a list of overrides",
        True,
    ),
    "control": (_text, "the name of an arm", True),
    "seeds": (_whole, f"a list of {_SEEDS}", True),
    "primary": (_text, "the name of an outcome", True),
    "margin": (
        lambda value: type(value) in (int, float) and math.isfinite(value) and value >= 0,
        "a number from 0",
        True,
    ),
    "overrides": (_texts, "a list of overrides (text)", False),
    "fewer_seeds": (_by_name(_whole), f"arms, each with a list of {_SEEDS}", False),
    "contexts": (lambda value: _texts(value) and bool(value), "a list of context modes, at least one", False),
    "secondary": (_texts, "a list of outcomes", False),
    "notes": (_texts, "a list of texts", False),
    "may_differ": (
        lambda value: _texts(value) and set(value) <= set(SHARED),
        f"a list of {', '.join(SHARED)}",
        False,
    ),
}


def _typed(raw: Mapping[Any, Any]) -> tuple[dict[str, Any], list[str]]:
    """The values with what was left out, and the faults of single keys."""
    faults = [f"{key}: unknown key; known are {', '.join(_KEYS)}" for key in raw if key not in _KEYS]
    values: dict[str, Any] = {}
    for key, (fits, kind, needed) in _KEYS.items():
        if key not in raw:
            if needed:
                faults.append(f"{key}: missing; write {kind}")
            continue
        if fits(raw[key]):
            values[key] = raw[key]
        else:
            faults.append(f"{key}: {json.dumps(raw[key], default=str)} is not {kind}")
    if faults:
        return values, faults
    values["margin"] = float(values["margin"])
    for key in ("overrides", "notes", "may_differ"):
        values.setdefault(key, [])
    values.setdefault("fewer_seeds", {})
    values.setdefault("contexts", ["history", "window:1"])
    if "secondary" not in values:
        modes = [mode_name(context) for context in values["contexts"] if not _context_fault(context)]
        every = [*(after(mode, "em") for mode in modes), REWARD_AREA]
        values["secondary"] = [name for name in every if name != values["primary"]]
    return values, []


def _broken_rules(values: Mapping[str, Any]) -> list[str]:
    """Faults of values that are well-formed each by itself."""
    arms, seeds = values["arms"], values["seeds"]
    faults = []
    if len(arms) < 2:
        faults.append("arms: there must be two or more, the control among them")
    if values["control"] not in arms:
        faults.append(f"control: {values['control']!r} is none of the arms ({', '.join(arms)})")
    for arm, some in values["fewer_seeds"].items():
        if arm not in arms:
            faults.append(f"fewer_seeds: {arm!r} is none of the arms ({', '.join(arms)})")
        elif arm == values["control"]:
            faults.append(f"fewer_seeds: {arm!r} is the control, which every seed needs")
        elif strange := [str(seed) for seed in some if seed not in seeds]:
            faults.append(f"fewer_seeds: {arm}: {', '.join(strange)} not among seeds")
    for place, overrides in (
        ("overrides", values["overrides"]),
        *((f"arms.{arm}", overrides) for arm, overrides in arms.items()),
    ):
        faults += [f"{place}: {fault}" for item in overrides if (fault := _override_fault(item))]
    contexts = [f"contexts: {fault}" for context in values["contexts"] if (fault := _context_fault(context))]
    if contexts:
        return faults + contexts
    modes = [mode_name(context) for context in values["contexts"]]
    for key, names in (("primary", [values["primary"]]), ("secondary", values["secondary"])):
        faults += [f"{key}: {fault}" for name in names if (fault := outcome_fault(name, modes))]
    if values["primary"] in values["secondary"]:
        faults.append(f"secondary: {values['primary']} is the primary outcome")
    return faults


def _override_fault(text: str) -> str | None:
    key, equals, _ = text.lstrip("+~").partition("=")
    if not equals and not text.startswith("~"):
        return f"{text!r} has not the form key=value"
    if key.strip() in RESERVED:
        return f"{text!r}: the experiment sets {key.strip()} for each run"
    return None


def _context_fault(context: str) -> str | None:
    try:
        mode_name(context)
    except ValueError as error:
        return str(error)
    return None
