"""A run from data to report: the stages in order, each skipped if it is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from tools.run.checkpoint import trained_model
from tools.run.data import DataFolder, data_inputs, prepare_data
from tools.run.errors import RunError
from tools.run.evaluation import evaluate, evaluation_settings, paired
from tools.run.files import write_json
from tools.run.fingerprint import check_same
from tools.run.lock import only_one
from tools.run.machine import describe
from tools.run.metrics import Step, read_steps
from tools.run.model import model_inputs, prepare_model
from tools.run.progress import Teller, training_display
from tools.run.question_files import check_prepared
from tools.run.report import final_lines, final_table, write_report
from tools.run.samples import write_readable
from tools.run.search import SearchAccess, search_access
from tools.run.stages import Stages, content_key
from tools.run.summary import summarize
from tools.run.training import RunFolder, train
from tools.run.wall import Wall


class Pipeline:
    """Carries out one run. The config must have passed `tools.run.plan.check` and `ready`."""

    def __init__(self, config: DictConfig, teller: Teller) -> None:
        self.config, self.teller = config, teller
        self.folder = RunFolder(Path(config.run.path))
        self.stages = Stages(self.folder.stages, teller.say)

    def run(self) -> dict[str, Any]:
        """Runs every stage that is not done; returns the summary.

        Raises:
            RunError: a stage failed, the folder belongs to another config, another process works in it, or the disk
                takes no more.
        """
        from verl_patches.disk import disk_full

        try:
            self.folder.path.mkdir(parents=True, exist_ok=True)
            with only_one(self.folder.path, "choose another run.name"):
                data_from = data_inputs(self.config)
                check_same(self.folder.path, self.config, {"task.files": data_from.get("files")})
                write_json(self.folder.path / "environment.json", describe())
                self.wall = Wall(self.folder.path / "wall.json")
                try:
                    return self._run(data_from)
                finally:
                    self._tidy()
        except RunError:
            raise
        except Exception as error:
            full = disk_full(error, self.folder.checkpoints)
            if full is None:
                raise
            raise RunError(full) from error

    def _tidy(self) -> None:
        """What is written whichever way a run ends. It does not raise: that would bury what ended the run."""
        for name, write in (
            ("the wall clock", self.wall.write),
            ("readable trajectories", lambda: write_readable(self.folder.trajectories)),
        ):
            try:
                write()
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.teller.say(f"not written at the end: {name} ({error})")

    def _run(self, data_from: dict[str, Any]) -> dict[str, Any]:
        data = self._data(data_from)
        model_from = model_inputs(self.config, data_from)
        model = self._model(data, model_from)
        self.config.data.train_files = str(data.train)
        self.config.data.val_files = str(data.validation)
        self.config.actor_rollout_ref.model.path = str(model)
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        pairs: dict[str, Any] = {}
        evaluated = int(self.config.run.eval_questions) > 0
        with search_access(
            self.config, data.corpus, self.folder.path / "search.log", self.teller.say
        ) as access:
            if evaluated:
                before = self._evaluate("before", model, data, access)
            trained = self._train(access, content_key({"data": data_from, "model": model_from}))
            if evaluated:
                name = f"after_step_{trained['step']}"
                after = self._evaluate(name, Path(trained["model"]), data, access)
                pairs = paired(self.folder.evaluation / "before", self.folder.evaluation / name, list(after))
        return self._report(before, after, pairs)

    def _data(self, inputs: dict[str, Any]) -> DataFolder:
        found = self.stages.run(
            "data",
            inputs,
            lambda: {"path": str(prepare_data(self.config, self.teller.say).path)},
            intact=lambda result: not DataFolder(Path(result["path"])).missing(self.config),
        )
        folder = DataFolder(Path(found["path"]))
        check_prepared(self.config, folder)
        return folder

    def _model(self, data: DataFolder, inputs: dict[str, Any]) -> Path:
        found = self.stages.run(
            "model",
            inputs,
            lambda: {"path": str(prepare_model(self.config, data, inputs, self.teller.say))},
            intact=lambda result: Path(result["path"]).is_dir(),
        )
        return Path(found["path"])

    def _evaluate(self, name: str, model: Path, data: DataFolder, access: SearchAccess) -> dict[str, Any]:
        inputs = evaluation_settings(self.config) | {"model": str(model), "data": str(data.path)}
        return self.stages.run(
            f"evaluate_{name}",
            inputs,
            lambda: evaluate(
                self.config,
                model,
                data.validation,
                access,
                self.folder.evaluation / name,
                title=f"evaluation {name.partition('_')[0]}",
                console=self.teller.console,
            ),
        )

    def _train(self, access: SearchAccess, content: str) -> dict[str, Any]:
        steps = int(self.config.trainer.total_training_steps)

        def work() -> dict[str, Any]:
            with training_display(self.teller, self.folder.metrics, steps) as show:

                def on_steps(new: list[Step]) -> None:
                    self.wall.tick()
                    show(new)

                train(self.config, self.folder, access, on_steps)
            saved = trained_model(self.folder.checkpoints)
            return {"step": saved.step, "model": str(saved.model)}

        return self.stages.run(
            "train",
            {"steps": steps, "content": content},
            work,
            intact=lambda result: Path(result["model"]).is_dir(),
        )

    def _report(self, before: dict[str, Any], after: dict[str, Any], pairs: dict[str, Any]) -> dict[str, Any]:
        steps = read_steps(self.folder.metrics)
        self.wall.write()
        summary = summarize(
            steps,
            wall_s=self.wall.seconds,
            stage_seconds=self.stages.seconds(),
            before=before,
            after=after,
            pairs=pairs,
        )
        write_json(self.folder.path / "summary.json", summary)
        write_report(self.folder.path / "report.html", str(self.config.run.name), summary, steps)
        if after:
            self.teller.console.print(final_table(summary))
        for line in final_lines(summary):
            self.teller.say(line)
        self.teller.say(f"done after {self.wall.seconds:.0f} s; report: {self.folder.path / 'report.html'}")
        return summary
