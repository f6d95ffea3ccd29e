"""The reference scorer over a stand-in for verl's worker group."""

import torch
from tensordict import TensorDict

from mempo.probe import Probe
from verl_patches.scoring import ReferenceScorer


class Workers:
    """Two ranks. Entry i of a row's log-probs is minus its token i + 1, as verl shifts them."""

    def __init__(self) -> None:
        self._dispatch_info = {"actor": [0, 1]}
        self.sequences: list[list[int]] = []

    def compute_log_prob(self, batch: TensorDict) -> dict[str, torch.Tensor]:
        self.sequences = [row.tolist() for row in batch["input_ids"].unbind()]
        rows = [-torch.roll(torch.tensor(ids, dtype=torch.float32), -1) for ids in self.sequences]
        return {"log_probs": torch.nested.as_nested_tensor(rows, layout=torch.jagged)}


FIRST = Probe([1, 2, 3], [10, 11, 12], [0, 1, 1])
OTHER_MASK = Probe([1, 2, 3], [10, 11, 12], [1, 0, 0])
OTHER_SPLIT = Probe([1, 2, 3, 10], [11, 12], [1, 1])
SECOND = Probe([4], [20, 21], [1, 1])


def test_log_probs_are_those_of_the_masked_tokens_in_the_given_shape():
    workers = Workers()
    scores = ReferenceScorer(workers, 100).answer_logprobs([[FIRST, SECOND], [], [OTHER_SPLIT]])
    assert [[row.tolist() for row in trajectory] for trajectory in scores] == [
        [[-11.0, -12.0], [-20.0, -21.0]],
        [],
        [[-11.0, -12.0]],
    ]


def test_equal_sequences_are_scored_once_whatever_their_masks():
    workers = Workers()
    scores = ReferenceScorer(workers, 100).answer_logprobs([[FIRST, FIRST, OTHER_MASK], [FIRST, SECOND]])
    assert sorted(workers.sequences) == [[1, 2, 3, 10, 11, 12], [4, 20, 21]]
    assert [[row.tolist() for row in trajectory] for trajectory in scores] == [
        [[-11.0, -12.0], [-11.0, -12.0], [-10.0]],
        [[-11.0, -12.0], [-20.0, -21.0]],
    ]


def test_the_batch_is_filled_up_to_the_number_of_ranks():
    workers = Workers()
    ReferenceScorer(workers, 100).answer_logprobs([[FIRST]])
    assert len(workers.sequences) == 2


def test_nothing_to_score_calls_no_worker():
    assert ReferenceScorer(None, 100).answer_logprobs([[], []]) == [[], []]
