"""The proof by transformers: the logits of a release against those of the checkpoint, on inputs that never change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tools.release.errors import ReleaseError

if TYPE_CHECKING:
    import torch

    from mempo.tokens import ChatTokens

TOLERANCE = 1e-5  # of a logit, in fp32
QUESTIONS = (
    "Who wrote the novel that the first film of this director is based on?",
    "In which town was the founder of that company born, and when?",
    "Which is older, the bridge or the church beside it?",
    "What is the capital of the country whose flag shows a cedar?",
)
RANDOM_ROWS, RANDOM_LENGTH = 4, 64


def fixed_inputs(tokens: ChatTokens, system: str | None, vocabulary: int) -> list[list[int]]:
    """Token ids to compute logits for: first prompts of an agent, and rows drawn from the whole vocabulary."""
    import torch

    asked = [tokens.first_prompt(system, text) + tokens.generation_prompt_ids for text in QUESTIONS]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(vocabulary, (RANDOM_ROWS, RANDOM_LENGTH), generator=generator).tolist()
    return [*asked, *drawn]


def logits_of(model: Any, inputs: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """For each input its logits, (tokens, vocabulary) in fp32; one sequence at a time, so that nothing is padded."""
    import torch

    with torch.inference_mode():
        return [model(input_ids=torch.tensor([list(ids)])).logits[0].float() for ids in inputs]


def largest_difference(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
    """The largest absolute difference of two lists of logits.

    Raises:
        ReleaseError: a logit is not finite.
    """
    differences = list(_differences(one, other))
    if not all(value < float("inf") for value in differences):  # NaN is not less either
        raise ReleaseError("a logit is not finite: the weights are of no use, release an earlier step")
    return max(differences)


def _differences(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> Iterator[float]:
    for left, right in zip(one, other, strict=True):
        yield float((left - right).abs().max())


def load_release(folder: Any) -> Any:
    """The release as transformers loads it, computing in fp32.

    Raises:
        ReleaseError: tensors are missing or left over, or tied weights are not tied.
    """
    import torch
    from transformers import AutoModelForCausalLM

    model, told = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, output_loading_info=True
    )
    odd = [f"{kind}: {sorted(names)}" for kind, names in told.items() if names]
    if odd:
        raise ReleaseError(f"transformers does not load the release as it is: {'; '.join(odd)}")
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    if tied != bool(model.config.tie_word_embeddings):
        raise ReleaseError(
            f"config.json says tie_word_embeddings {model.config.tie_word_embeddings}, but the reloaded model "
            f"{'has' if tied else 'has not'} tied them"
        )
    return model.eval()
