"""Merging: every tensor of every rank, in its own dtype; anything less is refused by name."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from tests.tools.release.runs import actor_of
from tests.tools.release.shard_rank import VARIANTS
from verl_patches.merger import MergeError, merge_shards

pytestmark = pytest.mark.timeout(300)  # the first test starts two ranks


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("ranks", ["one_rank", "two_ranks"])
def test_shards_make_up_the_weights_bit_by_bit_in_their_own_dtype(
    request: pytest.FixtureRequest, ranks: str, variant: str
) -> None:
    run = request.getfixturevalue(ranks) / variant
    merged, whole = merge_shards(actor_of(run)), torch.load(run / "whole.pt", weights_only=True)
    assert merged.keys() == whole.keys()
    for name, tensor in whole.items():
        assert merged[name].dtype == tensor.dtype
        assert torch.equal(merged[name], tensor), name


def spoilt(two_ranks: Path, tmp_path: Path) -> Path:
    return actor_of(Path(shutil.copytree(two_ranks / "untied-fp32", tmp_path / "run")))


def test_a_missing_rank_is_named(two_ranks: Path, tmp_path: Path) -> None:
    actor = spoilt(two_ranks, tmp_path)
    (actor / "model_world_size_2_rank_1.pt").unlink()
    with pytest.raises(MergeError, match="model_world_size_2_rank_1.pt is missing"):
        merge_shards(actor)


def test_shards_of_another_run_are_named(two_ranks: Path, tmp_path: Path) -> None:
    actor = spoilt(two_ranks, tmp_path)
    shutil.copy(actor / "model_world_size_2_rank_0.pt", actor / "model_world_size_1_rank_0.pt")
    with pytest.raises(MergeError, match=r"says 2 ranks, but there is model_world_size_1_rank_0\.pt"):
        merge_shards(actor)


def test_a_wrong_number_of_ranks_does_not_pass_for_a_whole_model(two_ranks: Path, tmp_path: Path) -> None:
    """Rank 0 of two, under the names of a run with one rank: half of each tensor."""
    actor = spoilt(two_ranks, tmp_path)
    (actor / "model_world_size_2_rank_1.pt").unlink()
    (actor / "model_world_size_2_rank_0.pt").rename(actor / "model_world_size_1_rank_0.pt")
    (actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 1}))
    with pytest.raises(MergeError):
        merge_shards(actor)


def test_the_number_of_ranks_must_be_told(run: Path) -> None:
    (actor_of(run) / "fsdp_config.json").write_text("{}")
    with pytest.raises(MergeError, match="fsdp_config.json: the number of ranks"):
        merge_shards(actor_of(run))


def test_a_cut_shard_is_named(run: Path) -> None:
    shard = actor_of(run) / "model_world_size_1_rank_0.pt"
    shard.write_bytes(shard.read_bytes()[:-1000])
    with pytest.raises(MergeError, match="rank_0.pt: not a readable shard"):
        merge_shards(actor_of(run))


def test_a_tensor_that_one_rank_lacks_is_named(two_ranks: Path, tmp_path: Path) -> None:
    actor = spoilt(two_ranks, tmp_path)
    shard = actor / "model_world_size_2_rank_1.pt"
    content = torch.load(shard, weights_only=True)
    del content["model.norm.weight"]
    torch.save(content, shard)
    with pytest.raises(MergeError, match=r"model\.norm\.weight is not in the shards of rank 0 and rank 1"):
        merge_shards(actor)


def test_whole_tensors_must_agree_over_the_ranks(two_ranks: Path, tmp_path: Path) -> None:
    actor = spoilt(two_ranks, tmp_path)
    for rank in range(2):
        shard = actor / f"model_world_size_2_rank_{rank}.pt"
        torch.save(torch.load(shard, weights_only=True) | {"a.buffer": torch.tensor(float(rank))}, shard)
    with pytest.raises(MergeError, match=r"a\.buffer cannot be merged"):
        merge_shards(actor)


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch evil-was-here",)


def test_a_shard_cannot_run_code(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    torch.save({"model.norm.weight": Evil()}, actor_of(run) / "model_world_size_1_rank_0.pt")
    with pytest.raises(MergeError, match="not a readable shard"):
        merge_shards(actor_of(run))
    assert not (run / "evil-was-here").exists()
