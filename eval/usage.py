"""What a trajectory cost in tokens. Every count is a number of token ids, so it is exact for the model's tokenizer."""

from __future__ import annotations

from dataclasses import dataclass

from mempo.trajectory import Trajectory


@dataclass(frozen=True)
class TokenUsage:
    """Tokens of one trajectory; every turn is one request.

    Attributes:
        prompt: what the requests showed the model (a forced prefix included), summed over the requests.
        response: what the model generated, summed. `prompt + response` is TT, the total tokens of MemPO.
        peak: PT, prompt and response of the largest request.
        dependency: tokens that the generated tokens attend to, summed over all generated tokens: a request that generates
            n_o tokens after n_p adds (n_p + n_o / 2) · n_o, the mean length of its context times its tokens. As in
            MEM1's evaluation code (arXiv 2506.15841; the Dependency of LightThinker, arXiv 2502.15589), but with the
            first prompt counted and without rounding.
    """

    prompt: int
    response: int
    peak: int
    dependency: float

    @classmethod
    def of(cls, trajectory: Trajectory) -> TokenUsage:
        shown = [len(turn.prompt_ids) + len(turn.prefix_ids) for turn in trajectory.turns]
        wrote = [len(turn.response_ids) for turn in trajectory.turns]
        requests = list(zip(shown, wrote, strict=True))
        return cls(
            prompt=sum(shown),
            response=sum(wrote),
            peak=max((before + new for before, new in requests), default=0),
            dependency=sum((before + new / 2) * new for before, new in requests),
        )
