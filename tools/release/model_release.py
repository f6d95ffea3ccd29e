"""From a checkpoint to a release that has been loaded, served and compared: `mempo release`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tools.release.agent_settings import agent_settings
from tools.release.card import model_card, write_card
from tools.release.check import content_problems
from tools.release.curve import curve_svg
from tools.release.errors import ReleaseError
from tools.release.facts import base_facts, data_facts, find_data, run_facts, start_hash
from tools.release.logits import TOLERANCE, fixed_inputs, largest_difference, load_release, logits_of
from tools.release.manifest import release_files, write_manifest
from tools.release.model_folder import build_model, read_model_config, read_tokenizer, write_model
from tools.release.results import START, THIS, Result, model_hash, read_results
from tools.release.scan import leaks
from tools.release.serving import ServingTest
from tools.release.source import Source, find_source, read_json
from tools.release.weights import Weights, cast, load_weights, target_dtype
from tools.run.files import write_json

if TYPE_CHECKING:
    from rich.console import Console

    from mempo.tokens import ChatTokens
    from tools.run.data import DataFolder

CURVE = "training.svg"


@dataclass(frozen=True)
class ModelReleaseSettings:
    """What to release, and how to test it.

    Attributes:
        checkpoint: see `tools.release.source.find_source`.
        out: the folder to make.
        dtype: `fp32`, `bf16`, or `auto` for that of the shards.
        results: folders of evaluations; none takes the run's own.
        data: the run's data folder; None takes the run's, if it still lies there.
        questions: how many held-out questions to put through the agent.
        vllm: whether the release is served, which the questions need too.
        device: `auto`, `cpu` or `cuda`, for vLLM.
    """

    checkpoint: Path
    out: Path
    dtype: str = "auto"
    results: Sequence[Path] = field(default_factory=list)
    data: Path | None = None
    questions: int = 8
    vllm: bool = True
    device: str = "auto"


def make_model_release(settings: ModelReleaseSettings, console: Console) -> dict[str, Any]:
    """Makes the folder and returns the content of its release.json.

    The folder appears when everything has been tested; until then all happens beside it.

    Raises:
        ReleaseError: the checkpoint is not whole, a test failed, or the folder exists already.
    """
    source = find_source(settings.checkpoint)
    with building(settings.out) as folder, TemporaryDirectory() as work:
        return _Making(settings, source, folder, Path(work), console).make()


@contextmanager
def building(out: Path) -> Iterator[Path]:
    """A folder beside `out` that becomes `out` if the block ends well, and goes away otherwise.

    Raises:
        ReleaseError: `out` exists and is not empty.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ReleaseError(f"{out} exists already: choose another folder, or remove it")
    # Under the same name, for cards and servers take it from the folder.
    outer = out.resolve().parent / f".{out.resolve().name}.building"
    shutil.rmtree(outer, ignore_errors=True)  # of a start that was killed
    folder = outer / out.resolve().name
    folder.mkdir(parents=True)
    try:
        yield folder
        if out.exists():
            out.rmdir()
        folder.rename(out)
    finally:
        shutil.rmtree(outer, ignore_errors=True)


class _Making:
    """One release in the making."""

    def __init__(
        self, settings: ModelReleaseSettings, source: Source, folder: Path, work: Path, console: Console
    ) -> None:
        self.settings, self.source, self.folder, self.work = settings, source, folder, work
        self.console = console

    def make(self) -> dict[str, Any]:
        from eval.agent_file import NAME as AGENT

        agent = agent_settings(self.source.config)
        data = find_data(self.source.config, self.settings.data)
        results, own = self._results()
        config = read_model_config(self.source.model)
        weights = load_weights(self.source.actor, config)
        dtype = target_dtype(weights, self.settings.dtype)
        self._say(f"{weights.parameters:,} parameters, {weights.saved_dtype} → {dtype}")
        tokens = _chat_tokens(self.source.model, agent)
        logits, tied = self._write_and_reload(weights, config, dtype, tokens, agent["texts"].get("prompt"))
        write_json(self.folder / AGENT, agent)
        vllm, questions = self._serve(agent, data, results, tokens)
        curve = curve_svg(self.source.steps)
        if curve:
            (self.folder / CURVE).write_text(curve, encoding="utf-8")
        facts: dict[str, Any] = {
            "made_by": f"mempo {version('mempo')}",
            "dtype": dtype,
            "run": run_facts(self.source),
            "base": base_facts(self.source),
            "data": data_facts(self.source.config, data, own),
            "agent": agent,
            "weights": {
                "parameters": weights.parameters,
                "dtype": dtype,
                "saved_dtype": weights.saved_dtype,
                "had_adapters": weights.had_adapters,
                "tied": tied,
                "ranks": int((read_json(self.source.actor / "fsdp_config.json") or {}).get("world_size", 1)),
            },
            "generation_config": {"left_out": self.left_out},
            "proof": {"logits": logits, "vllm": vllm, "questions": questions},
            "curve": CURVE if curve else None,
        }
        write_card(self.folder, model_card(self.folder.name, facts, results))
        self._check(facts)
        return write_manifest(
            self.folder, "model", {**facts, "results": [result.plain() for result in results]}
        )

    def _results(self) -> tuple[list[Result], list[Result]]:
        """All evaluations for the card, and those of the run itself, which tell the hash of its questions."""
        hashes = {
            found: subject
            for found, subject in ((start_hash(self.source), START), (model_hash(self.source.model), THIS))
            if found
        }
        evaluation = self.source.run.evaluation
        own = read_results([evaluation], hashes) if evaluation.is_dir() else []
        given = read_results(self.settings.results, hashes) if self.settings.results else own
        return given, own

    def _write_and_reload(
        self, weights: Weights, config: Any, dtype: str, tokens: ChatTokens, system: str | None
    ) -> tuple[dict[str, Any], bool]:
        """Writes the model, and compares what transformers reloads with what the shards held."""
        inputs = fixed_inputs(tokens, system, int(config.vocab_size))
        self._say("logits of the training checkpoint")
        trained = logits_of(build_model(config, weights.state, "float32"), inputs)
        rounded = cast(weights.state, dtype)
        self.left_out = write_model(self.folder, build_model(config, rounded, dtype), self.source.model)
        for name, value in self.left_out.items():
            self._say(
                f"generation_config.json: {name} {value} left out, which transformers ignores there and refuses to write"
            )
        rounding = None
        expected = trained
        if weights.rounded_by(dtype):
            expected = logits_of(build_model(config, rounded, "float32"), inputs)
            rounding = largest_difference(expected, trained)
        del rounded
        self._say("logits of the release, reloaded with transformers")
        self.model = load_release(self.folder)
        found = logits_of(self.model, inputs)
        difference = largest_difference(found, expected)
        if difference > TOLERANCE:
            raise ReleaseError(
                f"the reloaded release differs from the training checkpoint by {difference:g} in a logit, "
                f"{TOLERANCE:g} is allowed"
            )
        return {
            "max_abs_diff": difference,
            "rounding": rounding,
            "export": self._export(trained, inputs, weights),
            "compared": sum(each.numel() for each in found),
            "inputs": len(inputs),
        }, bool(config.tie_word_embeddings)

    def _export(self, trained: Any, inputs: list[list[int]], weights: Weights) -> float | None:
        """The trainer's own export of the same step, which our merging has no part in; None without one."""
        if weights.had_adapters or not model_hash(self.source.model):
            return None
        difference = largest_difference(logits_of(load_release(self.source.model), inputs), trained)
        if difference > TOLERANCE:
            raise ReleaseError(
                f"{self.source.model} and the shards beside it differ by {difference:g} in a logit: they are of "
                "different steps; take the export away if the shards are the right ones"
            )
        return difference

    def _serve(
        self,
        agent: dict[str, Any],
        data: DataFolder | None,
        results: list[Result],
        tokens: ChatTokens,
    ) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        if not self.settings.vllm:
            return None, None
        return ServingTest(
            folder=self.folder,
            model=self.model,
            tokens=tokens,
            agent=agent,
            data=data,
            questions=self.settings.questions,
            seed=int(self.source.config.get("seed") or 0),
            results=results,
            device=self.settings.device,
            work=self.work,
            console=self.console,
        ).run()

    def _check(self, facts: dict[str, Any]) -> None:
        """What `--check` will look at, and nothing of this machine in it."""
        problems = content_problems(self.folder, {"kind": "model", **facts})
        config = self.source.config
        places = [
            self.source.run.path,
            *(Path(str(config.run[key])) for key in ("path", "cache") if key in config.get("run", {})),
        ]
        problems += leaks(self.folder, places)
        if problems:
            raise ReleaseError(f"the release is not fit to be published: {'; '.join(problems)}")
        self._say(f"{len(release_files(self.folder)) + 1} files checked")

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False)


def _chat_tokens(folder: Path, agent: Mapping[str, Any]) -> ChatTokens:
    from eval.sample_log import TEMPLATE
    from mempo.tokens import ChatTokens

    try:
        return ChatTokens(read_tokenizer(folder), model=folder, chat_template_kwargs=agent[TEMPLATE])
    except ValueError as error:
        raise ReleaseError(f"{folder}: no agent can use this tokenizer: {error}") from error
