"""The scorers over a stand-in for verl's worker group."""

from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict
from transformers import Qwen2Config

from mempo.probe import Probe
from mempo.scoring.support import Refusal
from mempo.scoring.tree import Tree
from verl_patches.memory_worker import engine_refusal
from verl_patches.scoring import ReferenceScorer, TreeScorer, build_scorer


class Workers:
    """Two ranks. Entry i of a row's log-probs is minus its token i + 1, as verl shifts them."""

    def __init__(self) -> None:
        self._dispatch_info = {"actor": [0, 1]}
        self.sequences: list[list[int]] = []
        self.refusal: Refusal | None = None

    def tree_refusal(self) -> list[Refusal | None]:
        return [None, self.refusal]

    def score_memories(self, trees: list[list[Tree]]) -> list[list[torch.Tensor]]:
        assert len(trees) == 2 and len(trees[0]) == len(trees[1])
        return [[-torch.from_numpy(tree.targets).float() for tree in own] for own in trees]

    def compute_log_prob(self, batch: TensorDict) -> dict[str, torch.Tensor]:
        self.sequences = [row.tolist() for row in batch["input_ids"].unbind()]
        rows = [-torch.roll(torch.tensor(ids, dtype=torch.float32), -1) for ids in self.sequences]
        return {"log_probs": torch.nested.as_nested_tensor(rows, layout=torch.jagged)}


FIRST = Probe([1, 2, 3], [10, 11, 12], [0, 1, 1])
OTHER_MASK = Probe([1, 2, 3], [10, 11, 12], [1, 0, 0])
OTHER_SPLIT = Probe([1, 2, 3, 10], [11, 12], [1, 1])
SECOND = Probe([4], [20, 21], [1, 1])


@pytest.mark.parametrize("scorer", [ReferenceScorer, TreeScorer])
def test_log_probs_are_those_of_the_masked_tokens_in_the_given_shape(scorer):
    scores = scorer(Workers(), 100).answer_logprobs([[FIRST, SECOND], [], [OTHER_SPLIT]])
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
    assert TreeScorer(Workers(), 100).answer_logprobs([[], []]) == [[], []]


def test_the_tree_scores_where_every_rank_can_run_it():
    scorer, refused = build_scorer("tree", Workers(), 100)
    assert isinstance(scorer, TreeScorer) and refused is None
    assert isinstance(build_scorer("reference", Workers(), 100)[0], ReferenceScorer)


def test_the_reference_scores_where_a_rank_refuses_and_the_log_says_why(caplog):
    workers = Workers()
    workers.refusal = Refusal("sequence_parallel", "the actor splits sequences over ranks")
    scorer, refused = build_scorer("tree", workers, 100)
    assert isinstance(scorer, ReferenceScorer) and refused is workers.refusal
    assert "the actor splits sequences over ranks" in caplog.text


def test_an_unknown_scorer_is_named():
    with pytest.raises(ValueError, match=r"memory\.scorer is 'trie'; known are tree, reference"):
        build_scorer("trie", Workers(), 100)


def engine(**changes):
    module = torch.nn.Identity()
    module.config = Qwen2Config()
    return SimpleNamespace(
        **{"module": module, "model_config": SimpleNamespace(use_fused_kernels=False)} | changes
    )


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, None),
        ({"module": [torch.nn.Identity()]}, "engine"),  # Megatron: a list of pipeline chunks
        ({"ulysses_sequence_parallel_size": 2}, "sequence_parallel"),
        ({"model_config": SimpleNamespace(use_fused_kernels=True)}, "fused_kernels"),
    ],
)
def test_engines_that_cannot_run_the_tree(changes, code):
    refused = engine_refusal(engine(**changes))
    assert (refused and refused.code) == code
