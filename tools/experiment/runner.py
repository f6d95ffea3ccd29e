"""Carries out an experiment: the runs that are not done, one after the other, each a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.experiment.collect import collect
from tools.experiment.errors import ExperimentError
from tools.experiment.frozen import freeze
from tools.experiment.plan import RUNS, ExperimentPlan, PlannedRun
from tools.experiment.results import DONE, FAILED, NAME, assemble, write_results
from tools.run.errors import RunError
from tools.run.files import write_json
from tools.run.lock import only_one, wait_until_free
from tools.run.metrics import MetricsFollower
from tools.run.places import ROOT
from tools.run.processes import descendants, end_children, start, wait
from tools.run.stages import Say
from tools.run.training import RunFolder
from tools.run.wall import Wall

LOGS, RECORDS = "logs", "records"
ORPHAN_S = 60.0  # a run whose parent was killed ends its own children within this time
TOLD_EVERY_S = 60.0
CAUSE = 600  # characters of a failure's cause that are kept

Command = Callable[[PlannedRun], list[str]]


def run_command(run: PlannedRun) -> list[str]:
    """The ordinary pipeline. -P: the folder it is started in is no place to import from."""
    return [sys.executable, "-P", "-m", "tools.run", *run.words]


class Experiment:
    """An experiment in its folder. Call inside `tools.run.processes.guarded`.

    Args:
        command: makes the command of a run.
    """

    def __init__(self, plan: ExperimentPlan, say: Say, command: Command = run_command) -> None:
        self.plan, self.say, self.command = plan, say, command
        self.folder = plan.folder

    def run(self) -> dict[str, Any]:
        """Runs what is not done; returns the results, failures included.

        Raises:
            ExperimentError: the folder belongs to another protocol or process, or a seed has begun with other data.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with only_one(self.folder, "give --dir another folder"):
                freeze(self.plan)
                self._check_begun()
                self.wall = Wall(self.folder / "wall.json")
                try:
                    return self._run()
                finally:
                    self.wall.write()
        except RunError as error:
            raise ExperimentError(str(error)) from error

    def _run(self) -> dict[str, Any]:
        results = self._write_results()
        count = len(self.plan.runs)
        for position, run in enumerate(self.plan.runs, start=1):
            record = self.record(run)
            if record is not None and record["status"] == DONE:
                continue
            self.say(f"run {position} of {count}: seed {run.seed}, arm {run.arm} ({self._times()})")
            self._write_record(run, self._carry_out(run, f"run {position} of {count}", record))
            results = self._write_results()
        return results

    def record(self, run: PlannedRun) -> dict[str, Any] | None:
        """What is kept of a run; None if it neither finished nor failed yet."""
        try:
            found = json.loads(self._record_file(run).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ExperimentError(f"{self._record_file(run)}: not JSON ({error}); remove it") from error
        return dict(found)

    def _carry_out(self, run: PlannedRun, title: str, before: Mapping[str, Any] | None) -> dict[str, Any]:
        """Runs the pipeline and collects; returns the record, of a failure too."""
        folder = RunFolder(self.folder / RUNS / run.name)
        wait_until_free(folder.path, ORPHAN_S)
        earlier = list(before["causes"]) if before else []
        kept = {"causes": earlier, "shared": run.shared}
        try:
            if not (folder.path / "summary.json").exists():  # written last: such a run is finished
                self._hand_over(run)
                self._start(run, folder, title)
            found = collect(folder.path, self.plan.protocol.modes)
        except ExperimentError as error:
            cause = str(error).replace(str(self.folder), ".").replace(str(ROOT), ".")[:CAUSE]
            self.say(f"{title}: FAILED, and goes on with the next; the same command tries again.\n{cause}")
            return kept | {"status": FAILED, "causes": [*earlier, cause]}
        return kept | {"status": DONE} | found

    def _start(self, run: PlannedRun, folder: RunFolder, title: str) -> None:
        log = self.folder / LOGS / f"{run.name}.log"
        mark = log.stat().st_size if log.exists() else 0
        follower = MetricsFollower(folder.metrics)
        told = self.wall.seconds

        def tick() -> None:
            nonlocal told
            self.wall.tick()
            new = follower.new()
            if new and self.wall.seconds - told >= TOLD_EVERY_S:
                told = self.wall.seconds
                self.say(f"{title}: step {new[-1]['step']}")

        spare = descendants()
        child = start(self.command(run), log=log, environment=dict(os.environ))
        try:
            code = wait(child, 0.5, tick)
        finally:
            end_children(spare=spare)  # a run that died may leave some behind
        if code != 0:
            raise ExperimentError(f"exit code {code}: {_cause(log, mark)}")

    def _hand_over(self, run: PlannedRun) -> None:
        """Copies the evaluation before training of another arm of this seed, where it is the same one.

        The evaluation compares model, data and settings by their hashes once more before it takes it for its own.
        """
        target = self.folder / RUNS / run.name
        if (target / "stages" / "evaluate_before.json").exists():
            return
        for other in self.plan.runs:
            place = self.folder / RUNS / other.name
            same = all(
                run.shared.get(key) == other.shared.get(key) for key in ("data", "model", "evaluation")
            )
            finished = (place / "stages" / "evaluate_before.json").exists()
            if other.seed == run.seed and other.arm != run.arm and same and finished:
                scratch = target / "eval" / "before.tmp"
                shutil.rmtree(scratch, ignore_errors=True)
                shutil.rmtree(target / "eval" / "before", ignore_errors=True)
                shutil.copytree(place / "eval" / "before", scratch, ignore=shutil.ignore_patterns("*.log"))
                scratch.rename(target / "eval" / "before")
                self.say(f"seed {run.seed}: evaluation before training as in arm {other.arm}")
                return

    def _check_begun(self) -> None:
        """A seed's later arms must start from what its earlier ones started from, also after our code changed."""
        done = {run.name for run in self.plan.runs if (self.record(run) or {}).get("status") == DONE}
        begun = {run.seed for run in self.plan.runs if run.name not in done}
        for run in self.plan.runs:
            record = self.record(run) if run.name in done and run.seed in begun else None
            changed = [name for name, key in run.shared.items() if record and record["shared"][name] != key]
            if record and changed:
                raise ExperimentError(
                    f"seed {run.seed}: arm {run.arm} ran with another {' and '.join(changed)} than the other arms would now (code "
                    f"or input files changed since commit {record.get('commit')}): go back to it, or begin anew with a --dir "
                    "of its own"
                )

    def _write_results(self) -> dict[str, Any]:
        records = {
            (run.seed, run.arm): record for run in self.plan.runs if (record := self.record(run)) is not None
        }
        results = assemble(self.plan.protocol, self.plan.changes, records)
        write_results(self.folder / NAME, json.loads(json.dumps(results, default=str)))
        return results

    def _times(self) -> str:
        """Time so far, and an estimate from the runs that are done."""
        records = [self.record(run) for run in self.plan.runs]
        seconds = [record["timing"]["wall_s"] for record in records if record and record["status"] == DONE]
        so_far = f"{self.wall.seconds / 60:.0f} min so far"
        if not seconds:
            return so_far
        left = (len(records) - len(seconds)) * sum(seconds) / len(seconds)
        return f"{so_far}, about {left / 60:.0f} min to go"

    def _record_file(self, run: PlannedRun) -> Path:
        return self.folder / RECORDS / f"{run.name}.json"

    def _write_record(self, run: PlannedRun, record: Mapping[str, Any]) -> None:
        self._record_file(run).parent.mkdir(exist_ok=True)
        write_json(self._record_file(run), record)


def _cause(log: Path, offset: int) -> str:
    """The error that the run named on its last lines, else the last lines."""
    with log.open("rb") as file:
        file.seek(offset)
        lines = file.read().decode("utf-8", "replace").splitlines()
    shown = [line for line in lines if line.strip()]
    named = [index for index, line in enumerate(shown) if line.startswith("error: ")]
    return "\n".join(shown[named[-1] :] if named else shown[-5:]) or f"its log {log} is empty"
