"""A short SFT loop for small models on a CPU: loss on completion tokens only, the same result for the same seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from mempo.tokens import ChatTokens
from tools.sft.examples import Example, batches
from tools.sft.muon import Muon


@dataclass(frozen=True)
class TrainSettings:
    """The optimisation.

    Attributes:
        steps: updates on demonstrations.
        drill_steps: updates before them, on sequences of random words that repeat: a network learns to copy from these
            in a hundred steps, from demonstrations alone in thousands.
        max_tokens: padded tokens per batch.
        learning_rate: peak of AdamW (embeddings, norms); linear warm-up, constant, then a cosine to 3 % over the last
            `decay` of the steps.
        matrix_learning_rate: peak of Muon (weight matrices), on the same schedule.
        gradient_norm: larger gradients are scaled down to it.
    """

    steps: int = 1300
    drill_steps: int = 100
    max_tokens: int = 2000
    learning_rate: float = 3e-3
    matrix_learning_rate: float = 0.03
    warmup_steps: int = 40
    decay: float = 0.7
    beta2: float = 0.98
    gradient_norm: float = 1.0


Report = Callable[[int, int, float], None]  # steps done, steps in all, mean loss of late


def train(
    model: Any,
    tokens: ChatTokens,
    examples: Sequence[Example],
    settings: TrainSettings,
    seed: int,
    report: Report = lambda done, total, loss: None,
) -> float:
    """Trains `model` in place and returns the running mean of the loss, in nats per trained token.

    Raises:
        ValueError: there are no examples, or the loss is not finite.
    """
    import torch

    if not examples:
        raise ValueError("no examples to train on")
    torch.manual_seed(seed)
    rng = Random(seed)
    optimizers = _optimizers(model, settings)
    words = _words(tokens)
    queue: list[list[Example]] = []
    total, average = settings.drill_steps + settings.steps, 0.0
    model.train()
    for step in range(total):
        if step < settings.drill_steps:
            batch = [_drill(words, rng) for _ in range(settings.max_tokens // (2 * _DRILL_WORDS))]
        else:
            queue = queue or batches(examples, settings.max_tokens, rng)
            batch = queue.pop()
        for optimizer, peak in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * _scale(step, total, settings)
        loss = completion_loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_norm)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ValueError(f"step {step}: the loss is {value}; lower the learning rate")
        average = value if step in (0, settings.drill_steps) else 0.97 * average + 0.03 * value
        report(step + 1, total, average)
    model.eval()
    return average


def completion_loss(model: Any, batch: Sequence[Example]) -> Any:
    """Mean negative log-likelihood of the trained tokens of a batch; logits are made for those tokens only."""
    import torch

    length = max(len(example.ids) for example in batch)
    ids = torch.zeros(
        len(batch), length, dtype=torch.long
    )  # padding stands on the right: causal attention ignores it
    mask = torch.zeros(len(batch), length, dtype=torch.bool)
    for index, example in enumerate(batch):
        ids[index, : len(example.ids)] = torch.tensor(example.ids)
        mask[index, : len(example.mask)] = torch.tensor(example.mask, dtype=torch.bool)
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1][mask[:, 1:]]
    return torch.nn.functional.cross_entropy(model.lm_head(hidden).float(), ids[:, 1:][mask[:, 1:]])


def _optimizers(model: Any, settings: TrainSettings) -> list[tuple[Any, float]]:
    """Muon for the weight matrices, AdamW for the rest, each with its peak learning rate."""
    import torch

    matrices: list[Any] = []
    others: list[Any] = []
    for name, weight in model.named_parameters():
        (matrices if weight.ndim == 2 and "embed" not in name and "lm_head" not in name else others).append(
            weight
        )
    adam = torch.optim.AdamW(others, lr=settings.learning_rate, betas=(0.9, settings.beta2), weight_decay=0.0)
    return [
        (Muon(matrices, settings.matrix_learning_rate), settings.matrix_learning_rate),
        (adam, settings.learning_rate),
    ]


def _scale(step: int, total: int, settings: TrainSettings) -> float:
    warm = min(1.0, (step + 1) / settings.warmup_steps)
    late = (step / total - (1 - settings.decay)) / settings.decay
    return warm * (1.0 if late < 0 else 0.515 + 0.485 * math.cos(math.pi * late))


_DRILL_WORDS = 20


def _words(tokens: ChatTokens) -> list[int]:
    """Ids of the tokenizer's longer pieces: whole words, for the drill."""
    vocabulary = tokens.tokenizer.get_vocab()
    added = set(tokens.tokenizer.added_tokens_decoder)
    return sorted(index for piece, index in vocabulary.items() if len(piece) > 2 and index not in added)


def _drill(words: Sequence[int], rng: Random) -> Example:
    once = [rng.choice(words) for _ in range(_DRILL_WORDS)]
    return Example(once + once, [0] * (_DRILL_WORDS + 1) + [1] * (_DRILL_WORDS - 1))
