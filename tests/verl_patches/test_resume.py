"""A resumed run goes on from the newest checkpoint that is whole, aloud, and never loses one that it could use."""

import json
import shutil

import pytest

from tests.verl_patches.saved import checkpoint
from verl_patches.failures import RunFailed
from verl_patches.resume import TRACKER, flaw, newest_whole, repair_tracker, resume_point

ALL = ("model", "optimizer", "extra", "hf_model")


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def test_a_good_pointer_stays_and_a_newer_checkpoint_beside_it_is_named(tmp_path):
    checkpoint(tmp_path, 1)
    (tmp_path / TRACKER).write_text("1")
    assert resume_point(tmp_path, ALL).notes == []
    checkpoint(tmp_path, 2)
    (tmp_path / TRACKER).write_text("1")
    point = repair_tracker(tmp_path, ALL)
    assert (point.step, len(point.notes)) == (1, 1)
    assert "step 2 is left aside: latest_checkpointed_iteration.txt names step 1" in point.notes[0]


@pytest.mark.parametrize("torn", ["", "x", None])
def test_a_torn_or_missing_pointer_names_the_newest_whole_checkpoint(tmp_path, torn):
    checkpoint(tmp_path, 9)
    checkpoint(tmp_path, 10)
    (checkpoint(tmp_path, 11) / "data.pt").unlink()
    if torn is None:
        (tmp_path / TRACKER).unlink()
    else:
        (tmp_path / TRACKER).write_text(torn)
    point = repair_tracker(tmp_path, ALL)
    assert point.step == 10
    assert (tmp_path / TRACKER).read_text() == "10"
    assert "step 11 is left aside: data.pt is missing" in point.notes[0]
    assert (tmp_path / "global_step_11").is_dir(), "nothing is deleted"


def test_a_pointer_to_a_checkpoint_that_is_gone_is_put_right(tmp_path):
    checkpoint(tmp_path, 2)
    shutil.rmtree(checkpoint(tmp_path, 4))
    point = repair_tracker(tmp_path, ALL)
    assert (point.step, (tmp_path / TRACKER).read_text()) == (2, "2")
    assert point.notes == ["going on from the checkpoint of step 2 (step 4 is left aside: it is gone)"]


DAMAGE = {
    "actor/model_world_size_2_rank_1.pt is missing": lambda path: (
        path / "actor" / "model_world_size_2_rank_1.pt"
    ).unlink(),
    "actor/optim_world_size_2_rank_0.pt is cut short": lambda path: cut(
        path / "actor" / "optim_world_size_2_rank_0.pt"
    ),
    "actor/extra_state_world_size_2_rank_1.pt is cut short": lambda path: (
        path / "actor" / "extra_state_world_size_2_rank_1.pt"
    ).write_bytes(b""),
    "actor/fsdp_config.json is missing or damaged": lambda path: (
        path / "actor" / "fsdp_config.json"
    ).write_text("{"),
    "model.safetensors is cut short": lambda path: cut(path / "actor" / "huggingface" / "model.safetensors"),
    "model.safetensors is missing": lambda path: (
        path / "actor" / "huggingface" / "model.safetensors"
    ).unlink(),
    "data.pt is missing": lambda path: (path / "data.pt").unlink(),
    "data.pt is cut short": lambda path: cut(path / "data.pt"),
    "transfer_queue/ is missing": lambda path: (path / "transfer_queue").rmdir(),
}


@pytest.mark.parametrize("said", DAMAGE)
def test_half_a_checkpoint_is_left_for_the_one_before_and_said(tmp_path, said):
    checkpoint(tmp_path, 2, ranks=2, queue=True)
    newest = checkpoint(tmp_path, 4, ranks=2, queue=True)
    assert flaw(newest, ALL, queue=True) is None
    assert repair_tracker(tmp_path, ALL, queue=True).step == 4
    DAMAGE[said](newest)
    point = repair_tracker(tmp_path, ALL, queue=True)
    assert point.step == 2
    assert said in point.notes[0]


def test_a_sharded_export_needs_its_index_and_every_file_of_it(tmp_path):
    path = checkpoint(tmp_path, 1)
    model = path / "actor" / "huggingface"
    for part in (1, 2):
        shutil.copy(model / "model.safetensors", model / f"model-{part}.safetensors")
    (model / "model.safetensors").unlink()
    assert "index.json is missing" in flaw(path, ALL)
    index = {
        "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-3.safetensors"}
    }
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model-3.safetensors is missing" in flaw(path, ALL)
    shutil.copy(model / "model-1.safetensors", model / "model-3.safetensors")
    assert flaw(path, ALL) is None


def test_where_nothing_whole_is_left_the_run_stops_and_keeps_everything(tmp_path):
    for step in (2, 4):
        (checkpoint(tmp_path, step) / "data.pt").unlink()
    with pytest.raises(RunFailed, match=r"step 2 is left aside: data.pt is missing; step 4 .*put one back"):
        repair_tracker(tmp_path, ALL)
    assert (tmp_path / TRACKER).read_text() == "4"
    assert newest_whole(tmp_path) is None


def test_a_first_checkpoint_that_was_cut_short_means_from_scratch_and_is_said(tmp_path):
    assert resume_point(tmp_path / "none", ALL) == resume_point(tmp_path, ALL)
    assert resume_point(tmp_path, ALL).notes == []
    (checkpoint(tmp_path, 2) / "data.pt").unlink()
    (tmp_path / TRACKER).unlink()
    point = repair_tracker(tmp_path, ALL)
    assert point.step is None
    assert point.notes[0].startswith("starting from scratch: no checkpoint was completed (step 2 ")
    assert not (tmp_path / TRACKER).exists()
