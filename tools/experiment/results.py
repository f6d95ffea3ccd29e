"""The results of an experiment: one small JSON from which the report is made again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tools.experiment.collect import question_scores
from tools.experiment.errors import ExperimentError
from tools.experiment.outcome import mode_of
from tools.experiment.protocol import Protocol, protocol_of
from tools.experiment.statistics import nested_interval, paired_interval
from tools.experiment.verdict import Verdict, arm_phrase
from tools.run.files import write_text

NAME = "results.json"
DONE, FAILED, OUTSTANDING = "done", "failed", "outstanding"
Run = dict[str, Any]


def assemble(
    protocol: Protocol, changes: Mapping[str, Any], records: Mapping[tuple[int, str], Run]
) -> dict[str, Any]:
    """All that is kept: what was found, by the protocol's rule, and what it was found from.

    Args:
        changes: for each arm its keys that differ from the control's.
        records: by (seed, arm); a run without one is outstanding.
    """
    runs = [
        {"seed": seed, "arm": arm, **records.get((seed, arm), {"status": OUTSTANDING})}
        for seed, arm in protocol.runs()
    ]
    primary = {arm: compared(protocol, runs, arm, protocol.primary) for arm in _others(protocol)}
    return {
        "control": protocol.control,
        "primary": primary,
        "verdict": _sentence(protocol, runs, primary),
        "protocol_sha256": protocol.sha256,
        "secondary": {
            name: {arm: compared(protocol, runs, arm, name) for arm in _others(protocol)}
            for name in protocol.secondary
        },
        "protocol": protocol.record,
        "changes": {arm: changes.get(arm, {}) for arm in protocol.arms},
        "runs": runs,
    }


def headline(results: Mapping[str, Any]) -> dict[str, Any]:
    """What `report --json` prints."""
    return {key: results[key] for key in ("control", "primary", "verdict", "protocol_sha256")}


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """In one go, one line for each run: a committed file then changes where its results do."""
    lines = [f" {json.dumps(key)}: {_text(value)}" for key, value in results.items() if key != "runs"]
    runs = ",\n".join(f"  {_text(run)}" for run in results["runs"])
    write_text(path, "{\n" + ",\n".join([*lines, f' "runs": [\n{runs}\n ]']) + "\n}\n")


def read_results(path: Path) -> dict[str, Any]:
    """Results from a file or from an experiment's folder; what was found is worked out anew from its runs.

    Raises:
        ExperimentError: the file is none of ours, or says something else than follows from its own runs.
    """
    file = path / NAME if path.is_dir() else path
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        protocol = protocol_of(found["protocol"], str(file))
        records = {
            (run["seed"], run["arm"]): {key: run[key] for key in run if key not in ("seed", "arm")}
            for run in found["runs"]
        }
        results = assemble(protocol, found["changes"], records)
    except FileNotFoundError as error:
        raise ExperimentError(f"{file} is not there: give an experiment's folder or its JSON") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExperimentError(f"{file}: not the results of an experiment ({error!r})") from error
    odd = [key for key in results if _steady(json.loads(_text(results[key]))) != _steady(found.get(key))]
    if odd:
        raise ExperimentError(
            f"{file}: {', '.join(odd)} does not follow from its own runs: the file was edited"
        )
    return results


def outcome(run: Run, name: str) -> float | None:
    """One outcome of a run; None unless it is done and has it."""
    value = run.get("outcomes", {}).get(name) if run["status"] == DONE else None
    return None if value is None else float(value)


def by_arm(runs: Iterable[Run], arm: str) -> dict[int, Run]:
    """The finished runs of an arm, by seed."""
    return {run["seed"]: run for run in runs if run["arm"] == arm and run["status"] == DONE}


def compared(protocol: Protocol, runs: Sequence[Run], arm: str, name: str) -> dict[str, Any]:
    """An arm against the control in one outcome, over the seeds for which both are known.

    Returns:
        `seeds` (how many), `difference` (mean over seeds, arm less control), `ci` (95 % over seeds, Student's t),
        `ci_nested` (95 % by bootstrap over seeds and questions; EM only), each None where it does not exist; `planned`
        seeds, and the `verdict`, which is by `ci`. Six decimals.
    """
    control, arms = by_arm(runs, protocol.control), by_arm(runs, arm)
    pairs = []
    for seed in protocol.seeds_of(arm):
        if seed in control and seed in arms:
            values = outcome(arms[seed], name), outcome(control[seed], name)
            if values[0] is not None and values[1] is not None:
                pairs.append((seed, values[0] - values[1]))
    differences = [difference for _, difference in pairs]
    ci = _rounded(paired_interval(differences))
    nested = None
    mode = mode_of(name)
    if mode is not None:
        by_question = [question_differences(arms[seed], control[seed], mode) for seed, _ in pairs]
        if all(values is not None for values in by_question):
            nested = _rounded(nested_interval([values for values in by_question if values is not None]))
    return {
        "seeds": len(pairs),
        "planned": len(protocol.seeds_of(arm)),
        "difference": round(fmean(differences), 6) if differences else None,
        "ci": ci,
        "ci_nested": nested,
        "verdict": str(Verdict.of(ci, protocol.margin)),
    }


def question_differences(arm: Run, control: Run, mode: str) -> list[float] | None:
    """EM of each question, arm less control; None if the two did not answer the same ones."""
    one, other = arm["after"].get(mode), control["after"].get(mode)
    if not one or not other or one["questions"] != other["questions"]:
        return None
    return [a - b for a, b in zip(question_scores(one), question_scores(other), strict=True)]


def _others(protocol: Protocol) -> list[str]:
    return [arm for arm in protocol.arms if arm != protocol.control]


def _sentence(protocol: Protocol, runs: Sequence[Run], primary: Mapping[str, Mapping[str, Any]]) -> str:
    """The verdict on all arms. It says so where runs are missing."""
    phrases = [
        arm_phrase(arm, Verdict(found["verdict"]), found["difference"], found["ci"], found["seeds"])
        for arm, found in primary.items()
    ]
    counts = {status: sum(run["status"] == status for run in runs) for status in (OUTSTANDING, FAILED)}
    missing = [f"{count} of {len(runs)} runs {status}" for status, count in counts.items() if count]
    opening = f"Provisional, {' and '.join(missing)}: in" if missing else "In"
    return f"{opening} {protocol.primary}, against {protocol.control} with margin {protocol.margin:g}: {'; '.join(phrases)}."


def _steady(value: Any) -> Any:
    """Without what another version of the random generator may draw otherwise."""
    if isinstance(value, dict):
        return {key: _steady(inner) for key, inner in value.items() if key != "ci_nested"}
    return value


def _rounded(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if interval is None else (round(interval[0], 6), round(interval[1], 6))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
