"""Memory scoring by tree and by one sequence per probe, beside one plain log-prob pass over the same trajectories."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from mempo.probe import Probe
from mempo.scoring.mode import evaluating
from mempo.scoring.packing import schedule
from mempo.scoring.scorer import TreeScorer
from mempo.scoring.sequences import SequenceScorer
from mempo.trajectory import Trajectory
from tools.bench.memory import peak_mib
from tools.bench.trajectories import Shape, random_probes, random_trajectory


@dataclass(frozen=True)
class ScoringBench:
    """What is measured; `turn`, `memory` and `answer` are tokens."""

    turns: tuple[int, ...] = (2, 4, 8, 16)
    model: str | None = None
    trajectories: int = 1
    repeats: int = 5
    turn: int = 600
    memory: int = 100
    answer: int = 30
    budget: int = 4096
    threads: int = len(os.sched_getaffinity(0))
    dtype: str = "float32"
    device: str = "cpu"
    seed: int = 0

    def run(self) -> Iterator[dict[str, Any]]:
        """One result per number of turns."""
        torch.set_num_threads(self.threads)
        model = self._model().to(self.device)
        for turns in self.turns:
            yield self._measure(model, turns)

    def _model(self) -> Any:
        dtype = getattr(torch, self.dtype)
        if self.model:
            return AutoModelForCausalLM.from_pretrained(self.model, dtype=dtype, attn_implementation="sdpa")
        torch.manual_seed(self.seed)
        return Qwen2ForCausalLM(small_qwen2()).to(dtype)

    def _measure(self, model: Any, turns: int) -> dict[str, Any]:
        random = np.random.default_rng([self.seed, turns])
        vocabulary = model.config.vocab_size
        shape = Shape(turns, self.turn, self.memory, self.answer)
        trajectories = [random_trajectory(shape, vocabulary, random) for _ in range(self.trajectories)]
        probes = [random_probes(each, self.answer, vocabulary, random) for each in trajectories]
        tree, sequences = TreeScorer(model, self.budget), SequenceScorer(model, self.budget)
        works: dict[str, Callable[[], object]] = {
            "tree": lambda: tree.answer_logprobs(probes),
            "reference": lambda: sequences.answer_logprobs(probes),
            "pass": lambda: logprob_pass(model, trajectories),
        }
        device = torch.device(self.device)
        peaks = {name: peak_mib(work, device) for name, work in works.items()}  # also warms up
        seconds = interleaved(works, self.repeats, device)
        return {
            "turns": turns,
            "tokens_tree": schedule(probes, self.budget).tokens,
            "tokens_reference": sum(len(probe) for each in probes for probe in each),
            "tokens_pass": sum(len(row.prompt_ids) + len(row.response_ids) for row in _rows(trajectories)),
            **{f"seconds_{name}": round(value, 4) for name, value in seconds.items()},
            "speedup": seconds["reference"] / seconds["tree"],
            "share_of_logprob_pass": seconds["tree"] / seconds["pass"],
            "max_abs_diff": largest_difference(
                tree.answer_logprobs(probes), sequences.answer_logprobs(probes)
            ),
            **self._dtype_error(model, probes),
            **{f"peak_mib_{name}": peak and round(peak, 1) for name, peak in peaks.items()},
            "settings": self._settings(model),
        }

    def _dtype_error(self, model: Any, probes: list[list[Probe]]) -> dict[str, float]:
        """In half precision: the largest |ΔP| of an answer token against the same weights in fp32."""
        if self.dtype == "float32":
            return {}
        half = TreeScorer(model, self.budget).answer_logprobs(probes)
        exact = TreeScorer(model.float(), self.budget).answer_logprobs(probes)
        model.to(getattr(torch, self.dtype))
        return {"max_abs_dp_to_fp32": largest_difference(_exp(half), _exp(exact))}

    def _settings(self, model: Any) -> dict[str, Any]:
        return {
            **{name: value for name, value in asdict(self).items() if name != "turns"},
            "model": self.model or "random Qwen2",
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "vocabulary": model.config.vocab_size,
            "torch": torch.__version__,
            "order": "interleaved, median of the repeats; the reference in batches sorted by length; both compute "
            "logits at answer positions only; the pass computes them everywhere, as the trainer does",
        }


def small_qwen2() -> Qwen2Config:
    """About 13 million parameters, grouped heads, a vocabulary of 32k."""
    return Qwen2Config(
        vocab_size=32_000,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=7,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
    )


def logprob_pass(model: Any, trajectories: list[Trajectory]) -> list[torch.Tensor]:
    """[L] log-probs of every token of each row: what a trainer computes of its rollouts anyway."""
    device = next(model.parameters()).device
    found = []
    with evaluating(model):
        for row in _rows(trajectories):
            ids = torch.tensor([row.prompt_ids + row.response_ids], device=device)
            logits = model(input_ids=ids, use_cache=False).logits[0, :-1].float()
            found.append(logits.gather(1, ids[0, 1:, None])[:, 0] - logits.logsumexp(1))
    return found


def interleaved(
    works: dict[str, Callable[[], object]], repeats: int, device: torch.device
) -> dict[str, float]:
    """Median seconds of each piece of work, taking turns, so that what else the machine does meets all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


def largest_difference(left: list[list[torch.Tensor]], right: list[list[torch.Tensor]]) -> float:
    """Largest absolute difference between two answers of scorers."""
    return max(
        float((one - other).abs().max())
        for ones, others in zip(left, right, strict=True)
        for one, other in zip(ones, others, strict=True)
    )


def _exp(answers: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
    return [[values.exp() for values in each] for each in answers]


def _rows(trajectories: list[Trajectory]) -> list[Any]:
    return [row for trajectory in trajectories for row in trajectory.rows()]


def model_folder(path: Path | None) -> str | None:
    """The folder as text, after a look whether it holds a model."""
    if path is not None and not (path / "config.json").is_file():
        raise FileNotFoundError(f"{path} holds no config.json: give the folder of a Hugging Face model")
    return None if path is None else str(path)
